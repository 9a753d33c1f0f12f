//! Descriptions of kernels from 2.6.31 to 6.18: the same event from all of them.

use schedlab_tracefmt::Endian;

use super::*;
use crate::{Comm, PrevState, StateMapping, TaskRef};

const COMMON: &str = "\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

fn switch_format(long_size: u32, print: &str) -> String {
    let next = 32 + long_size;
    format!(
        "name: sched_switch\nID: 10\nformat:\n{COMMON}\n\
         \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:1;\n\
         \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
         \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
         \tfield:long prev_state;\toffset:32;\tsize:{long_size};\tsigned:1;\n\
         \tfield:char next_comm[16];\toffset:{next};\tsize:16;\tsigned:1;\n\
         \tfield:pid_t next_pid;\toffset:{};\tsize:4;\tsigned:1;\n\
         \tfield:int next_prio;\toffset:{};\tsize:4;\tsigned:1;\n\n\
         print fmt: {print}\n",
        next + 16,
        next + 20
    )
}

/// The print formats, by what changed in them.
const STATES_2_6_31: &str = r#""task %s:%d [%d] (%s) ==> %s:%d [%d]", REC->prev_comm, REC->prev_pid, REC->prev_prio, REC->prev_state ? __print_flags(REC->prev_state, "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "W" }) : "R", REC->next_comm, REC->next_pid, REC->next_prio"#;
const STATES_3_10: &str = r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, REC->prev_state & (512-1) ? __print_flags(REC->prev_state & (512-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }) : "R", REC->prev_state & 512 ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio"#;
const STATES_4_4: &str = r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, REC->prev_state & (2048-1) ? __print_flags(REC->prev_state & (2048-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 2048 ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio"#;
const STATES_6_18: &str = r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio"#;
const STATES_AS_NUMBERS: &str = r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%ld ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, REC->prev_state, REC->next_comm, REC->next_pid, REC->next_prio"#;

fn number(value: i64, size: usize, endian: Endian) -> Vec<u8> {
    let mut bytes = value.to_le_bytes()[..size].to_vec();
    if endian == Endian::Big {
        bytes.reverse();
    }
    bytes
}

fn switch_payload(state: i64, long_size: usize, endian: Endian) -> Vec<u8> {
    let mut out = number(10, 2, endian);
    out.extend([0x05, 0x12]);
    out.extend(number(7, 4, endian));
    let task = |comm: &[u8; 16]| {
        let numbers = [number(7, 4, endian), number(-1, 4, endian)].concat();
        [&comm[..], &numbers].concat()
    };
    out.extend(task(b"a =b\0\0\0\0\0\0\0\0\0\0\0\0"));
    out.extend(number(state, long_size, endian));
    out.extend(task(b"0123456789abcde\0"));
    out
}

fn state_of(print: &str, state: i64) -> (PrevState, Vec<StateMapping>) {
    let mut decoder = PayloadDecoder::new(Endian::Little, 8);
    decoder
        .add_format(switch_format(8, print).as_bytes())
        .unwrap();
    let payload = switch_payload(state, 8, Endian::Little);
    let first = decoder.decode(&payload).unwrap();
    // The second time it comes from the table.
    assert_eq!(decoder.decode(&payload).unwrap(), first);
    let mut report = ReadReport::default();
    decoder.report(&mut report);
    let mappings = report.prev_state.into_iter().collect();
    match first.kind {
        EventKind::SchedSwitch { prev_state, .. } => (prev_state, mappings),
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_byte_orders_and_long_sizes() {
    for endian in [Endian::Little, Endian::Big] {
        for long_size in [4u8, 8] {
            let mut decoder = PayloadDecoder::new(endian, long_size);
            let format = switch_format(u32::from(long_size), STATES_6_18);
            decoder.add_format(format.as_bytes()).unwrap();
            let payload = switch_payload(0x100, usize::from(long_size), endian);
            let decoded = decoder.decode(&payload).unwrap();
            let task = |comm: &str| TaskRef {
                comm: Comm::new(comm),
                pid: 7,
                prio: -1,
            };
            let expected = EventKind::SchedSwitch {
                prev: task("a =b"),
                prev_state: PrevState::PREEMPTED,
                next: task("0123456789abcde"),
            };
            assert_eq!((decoded.pid, decoded.kind), (7, expected));
            assert!(decoded.flags.irqs_off && decoded.flags.need_resched);
            assert_eq!(decoded.flags.preempt_depth, 2);
        }
    }
}

#[test]
fn states_by_the_kernels_own_table() {
    let preempted = PrevState::PREEMPTED;
    for (print, cases) in [
        (
            STATES_2_6_31,
            vec![
                (0, PrevState(0)),
                (2, PrevState(2)),
                (16, PrevState::ZOMBIE),
                (32, PrevState::DEAD),
            ],
        ),
        (
            STATES_3_10,
            vec![
                (0, PrevState(0)),
                (1, PrevState(1)),
                (512, preempted),
                (64, PrevState::DEAD),
                (16, PrevState::ZOMBIE),
                (2 | 128, PrevState(2)),
                (513, PrevState(0x101)),
            ],
        ),
        (
            STATES_4_4,
            vec![
                (512, PrevState(0x40)),
                (2048, preempted),
                (0x402, PrevState(2)),
                (32, PrevState::DEAD),
            ],
        ),
        (
            STATES_6_18,
            vec![
                (0, PrevState(0)),
                (0x100, preempted),
                (0x10, PrevState::DEAD),
                (0x20, PrevState::ZOMBIE),
                (0x80, PrevState::IDLE),
                (0x81, PrevState(0x81)),
            ],
        ),
    ] {
        for (value, state) in cases {
            let (got, mappings) = state_of(print, value);
            assert_eq!(got, state, "{value:#x} by {print}");
            assert_eq!(mappings, [StateMapping::FormatTable], "{print}");
        }
    }
}

#[test]
fn states_without_a_table_are_bits() {
    for print in [STATES_AS_NUMBERS, "\"%s\", unknown(REC->prev_state)", ""] {
        let (state, mappings) = state_of(print, 0x102);
        assert_eq!(state, PrevState(0x102), "{print}");
        assert_eq!(mappings, [StateMapping::Bits], "{print}");
    }
}

#[test]
fn dynamic_names_and_other_events() {
    let mut decoder = PayloadDecoder::new(Endian::Little, 8);
    for text in [
        format!(
            "name: sched_process_exec\nID: 1\n{COMMON}\n\
             \tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
             \tfield:pid_t old_pid;\toffset:16;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n"
        ),
        format!(
            "name: cpu_idle\nID: 2\n{COMMON}\n\tfield:u32 state;\toffset:8;\tsize:4;\tsigned:0;\n\n\
             print fmt: \"state=%lu\", (unsigned long)REC->state\n"
        ),
        format!(
            "name: odd\nID: 3\n{COMMON}\n\tfield:u32 state;\toffset:8;\tsize:4;\tsigned:0;\n\n\
             print fmt: \"%s\", name_of(REC->state)\n"
        ),
        format!("name: sched_wakeup\nID: 4\n{COMMON}\n\nprint fmt: \"\"\n"),
        "name: broken\nID: 5\n\tfield:x;\toffset:a;\n".to_owned(),
    ] {
        decoder.add_format(text.as_bytes()).unwrap();
    }
    let mut payload = vec![1, 0, 0, 0, 9, 0, 0, 0, 20, 0, 8, 0, 5, 0, 0, 0, 6, 0, 0, 0];
    payload.extend(b"/bin/wl\0");
    assert_eq!(
        decoder.decode(&payload).unwrap().kind,
        EventKind::SchedProcessExec {
            filename: "/bin/wl".to_owned(),
            pid: 5,
            old_pid: 6
        }
    );
    // The name reaches past the end.
    assert_eq!(
        decoder.decode(&payload[..27]),
        Err(UnparsedReason::Fields("sched_process_exec"))
    );
    let mut fields = |id: u8| match decoder.decode(&[id, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]) {
        Ok(Decoded {
            kind: EventKind::Other { name, fields },
            ..
        }) => format!("{name}: {fields}"),
        other => format!("{other:?}"),
    };
    assert_eq!(fields(2), "cpu_idle: state=7");
    assert_eq!(fields(3), "odd: state=7");
    assert_eq!(fields(4), "Err(Fields(\"sched_wakeup\"))");
    assert_eq!(fields(5), "Err(NoFormat)");
    assert_eq!(fields(6), "Err(NoFormat)");
    assert_eq!(decoder.decode(&[1]), Err(UnparsedReason::TruncatedRecord));
    let mut report = ReadReport::default();
    decoder.report(&mut report);
    assert_eq!(
        report.remarks,
        [
            "odd: fields of 1 events are shown as name=value pairs: its print format has the function name_of",
            "the format description of event 5 is not usable: line 3: expected offset: and a number: field:x;\toffset:a;",
        ]
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    let mut decoder = PayloadDecoder::new(Endian::Little, 8);
    let error = decoder.add_format(b"name: a\nID: 65536\n").unwrap_err();
    assert_eq!(error.to_string(), "ID: 65536 has more than 16 bits");
}
