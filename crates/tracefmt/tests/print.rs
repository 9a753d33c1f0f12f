//! `print fmt:` and what the kernel's `printf` and helpers make of it.

use proptest::prelude::*;
use schedlab_tracefmt::print::Printed;
use schedlab_tracefmt::{Endian, EventFormat, Printer};

/// Fields of every sort, and a payload for them.
const FIELDS: &str = "\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:u8 byte;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:s8 neg;\toffset:3;\tsize:1;\tsigned:1;\n\
    \tfield:int i;\toffset:4;\tsize:4;\tsigned:1;\n\
    \tfield:u64 big;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:char comm[8];\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:u8 addr[16];\toffset:24;\tsize:16;\tsigned:0;\n\
    \tfield:__data_loc char[] str;\toffset:40;\tsize:4;\tsigned:0;\n\
    \tfield:__rel_loc u16[] list;\toffset:44;\tsize:4;\tsigned:0;\n\
    \tfield:const char * where;\toffset:48;\tsize:8;\tsigned:0;\n\
    \tfield:__data_loc unsigned long[] mask;\toffset:56;\tsize:4;\tsigned:0;\n\
    \tfield:u32 u;\toffset:60;\tsize:4;\tsigned:0;\n";

fn payload() -> Vec<u8> {
    let mut out = vec![9, 0, 0x86, 0xfe];
    out.extend((-7i32).to_le_bytes());
    out.extend(0xffff_ffff_0000_0001u64.to_le_bytes());
    out.extend(b"my task\0");
    out.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let fixed = 64u32;
    out.extend((fixed | (6 << 16)).to_le_bytes());
    out.extend(((fixed + 8 - 48) | (4 << 16)).to_le_bytes());
    out.extend(0xffff_8000_1234_5678u64.to_le_bytes());
    out.extend(((fixed + 16) | (8 << 16)).to_le_bytes());
    out.extend(0x8000_0000u32.to_le_bytes());
    out.extend(b"hello\0\0\0");
    out.extend([1, 0, 2, 0, 0, 0, 0, 0]);
    out.extend(5u64.to_le_bytes());
    out
}

fn format_with(print: &str) -> EventFormat {
    let text = format!("name: x\nID: 9\nformat:\n{FIELDS}\nprint fmt: {print}\n");
    EventFormat::parse(text.as_bytes()).unwrap()
}

fn print(print: &str) -> String {
    let printer = Printer::new(&format_with(print));
    assert_eq!(printer.unsupported(), None, "{print}");
    let (text, how) = printer.print_with_status(&payload(), Endian::Little);
    assert_eq!(how, Printed::AsKernel, "{print}: {text}");
    text
}

#[test]
fn conversions() {
    for (format, expected) in [
        (
            r#""%d %u %x", REC->i, REC->i, REC->i"#,
            "-7 4294967289 fffffff9",
        ),
        (
            r#""%lld %llu", REC->big, REC->big"#,
            "-4294967295 18446744069414584321",
        ),
        // An int that is printed as long long keeps its sign.
        (r#""%llx", (unsigned long long)REC->i"#, "fffffffffffffff9"),
        (r#""%d %d", REC->byte, REC->neg"#, "134 -2"),
        (r#""%hhd %hu", REC->byte, REC->i"#, "-122 65529"),
        (
            r#""[%5d][%-5d][%05d][%+d][% d]", 42, 42, 42, 42, 42"#,
            "[   42][42   ][00042][+42][ 42]",
        ),
        (
            r#""[%#x][%#o][%#X][%#x]", 255, 8, 255, 0"#,
            "[0xff][010][0XFF][0]",
        ),
        (
            r#""[%08lx][%#06x][%.3d][%6.3d]", 255, 255, 7, 7"#,
            "[000000ff][0x00ff][007][   007]",
        ),
        (r#""[%*d][%-*d]", 4, 7, 4, 7"#, "[   7][7   ]"),
        (
            r#""[%10s][%-10s][%.2s][%.*s]", REC->comm, REC->comm, REC->comm, 4, REC->comm"#,
            "[   my task][my task   ][my][my t]",
        ),
        (r#""%c%%", 'A'"#, "A%"),
        (r#""%s\n", __get_str(str)"#, "hello"),
        (
            r#""%Lu %zu", REC->big, sizeof(u64)"#,
            "18446744069414584321 8",
        ),
        (r#""%p", REC->where"#, "ffff800012345678"),
        (
            r#""%pI6c %pI6", REC->addr, REC->addr"#,
            "2001:db8::1 2001:0db8:0000:0000:0000:0000:0000:0001",
        ),
        (
            r#""%pI4 %pM", REC->addr, REC->addr"#,
            "32.1.13.184 20:01:0d:b8:00:00",
        ),
        (
            r#""%pU %pUl", REC->addr, REC->addr"#,
            "20010db8-0000-0000-0000-000000000001 b80d0120-0000-0000-0000-000000000001",
        ),
    ] {
        assert_eq!(print(format), expected, "{format}");
    }
}

#[test]
fn expressions() {
    for (expression, expected) in [
        ("1 + 2 * 3 - 4 / 2", "5"),
        ("(1 + 2) * 3 % 4", "1"),
        ("1 << 4 | 3 & 2 ^ 1", "19"),
        ("-REC->i", "7"),
        ("~0 & 0xff", "255"),
        ("!REC->i ? 1 : 2", "2"),
        ("REC->i < 0 && REC->byte > 100 || 0", "1"),
        // Unsigned against signed compares as unsigned.
        ("REC->u > -1", "0"),
        ("REC->i > 5U", "1"),
        // 0x80000000 is an unsigned int; shifted right it stays positive.
        ("REC->u >> 31", "1"),
        ("REC->i >> 1", "-4"),
        ("(u8)0x1ff", "255"),
        ("(int)(REC->big >> 32)", "-1"),
        ("((unsigned int)((REC->big) & ((1U << 20) - 1)))", "1"),
        ("REC->addr[3]", "184"),
        ("((u16 *)REC->addr)[1]", "47117"),
        ("REC->big == 0 ?: 3", "3"),
        ("__get_dynamic_array_len(list) / sizeof(u16)", "2"),
        ("sizeof(REC->comm)", "8"),
        ("__builtin_expect(!!(REC->byte), 1)", "1"),
        ("(REC)->byte", "134"),
        ("'a'", "97"),
    ] {
        assert_eq!(
            print(&format!("\"%d\", {expression}")),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn helpers_of_the_kernel() {
    let flags = r#"{ 1, "A" }, { 2, "B" }, { 4, "C" }, { 6, "BC" }"#;
    for (expression, expected) in [
        (
            format!("__print_flags(REC->byte, \"|\", {flags})"),
            "B|C|0x80",
        ),
        (format!("__print_flags(0, \"|\", {flags})"), ""),
        (format!("__print_flags(1 + 8, \"\", {flags})"), "A0x8"),
        (
            "__print_flags(REC->byte, \"|\", { 6, \"BC\" }, { 2, \"B\" })".to_owned(),
            "BC|0x80",
        ),
        (format!("__print_symbolic(REC->byte & 7, {flags})"), "BC"),
        (format!("__print_symbolic(REC->byte, {flags})"), "0x86"),
        (
            "__print_symbolic(REC->i, { -7, \"minus\" })".to_owned(),
            "minus",
        ),
        (
            "__print_symbolic(1, { 1, \"x\" \"y\" }, { -1, ((void *)0) })".to_owned(),
            "xy",
        ),
        ("REC->i ? __print_symbolic(2, { }) : \"\"".to_owned(), "0x2"),
        (
            "__print_array(__get_dynamic_array(list), 2, 2)".to_owned(),
            "{0x1,0x2}",
        ),
        ("__print_hex(REC->addr, 4)".to_owned(), "20 01 0d b8"),
        ("__print_hex_str(REC->addr, 4)".to_owned(), "20010db8"),
        ("__get_cpumask(mask)".to_owned(), "00000000,00000005"),
    ] {
        assert_eq!(
            print(&format!("\"%s\", {expression}")),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn what_only_the_kernels_memory_holds() {
    for (format, expected) in [
        (r#""%s", REC->where"#, "0xffff800012345678"),
        (r#""%pS", (void *)REC->where"#, "0xffff800012345678"),
    ] {
        let printer = Printer::new(&format_with(format));
        let (text, how) = printer.print_with_status(&payload(), Endian::Little);
        assert_eq!((text.as_str(), how), (expected, Printed::Addresses));
    }
}

const PAIRS: &str = "byte=134 neg=-2 i=-7 big=18446744069414584321 comm=my task \
    addr={32,1,13,184,0,0,0,0,0,0,0,0,0,0,0,1} str=hello list={1,2} where=0xffff800012345678 \
    mask={5} u=2147483648";

#[test]
fn pairs_where_the_format_is_not_understood() {
    for (format, what) in [
        (
            r#""%d", jiffies_to_msecs(REC->i)"#,
            "the function jiffies_to_msecs",
        ),
        (
            r#""%s", __print_symbolic(REC->i, { SOME_NAME, "x" })"#,
            "the name SOME_NAME",
        ),
        (r#""%d", ({ 1; })"#, "a statement in brackets"),
        (
            r#""%d", REC->missing"#,
            "the field missing, which is not described",
        ),
        (r#""%d %d", REC->i"#, "more conversions than arguments"),
        (r#""%d", REC->i REC->i"#, "the name REC where it stands"),
        (r#""%d", (1"#, "the end where \")\" is missing"),
        (r#""%pV", REC->where"#, "the conversion %pV"),
        (
            r#""%d", (struct x)REC->i"#,
            "a cast to a type of unknown size",
        ),
        ("", "no format string"),
        ("\"open", "a text without an end"),
    ] {
        let printer = Printer::new(&format_with(format));
        assert_eq!(printer.unsupported(), Some(what), "{format}");
        let (text, how) = printer.print_with_status(&payload(), Endian::Little);
        assert_eq!((text.as_str(), how), (PAIRS, Printed::Pairs));
    }
}

#[test]
fn pairs_where_the_payload_falls_short() {
    for format in [
        r#""%d", 1 / (REC->i + 7)"#,
        r#""%s", __print_hex(REC->addr, 17)"#,
    ] {
        let printer = Printer::new(&format_with(format));
        assert_eq!(printer.unsupported(), None);
        let how = printer.print_with_status(&payload(), Endian::Little).1;
        assert_eq!(how, Printed::Pairs, "{format}");
    }
    let printer = Printer::new(&format_with(r#""%d %s", REC->u, __get_str(str)"#));
    let (text, how) = printer.print_with_status(&payload()[..20], Endian::Little);
    assert_eq!(how, Printed::Pairs);
    assert!(
        text.ends_with("comm=? addr=? str=? list=? where=? mask=? u=?"),
        "{text}"
    );
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = format!("\"%d\", {}1{}", "(".repeat(5000), ")".repeat(5000));
    let printer = Printer::new(&format_with(&deep));
    assert_eq!(printer.unsupported(), Some("brackets nested too deeply"));
    let unary = format!("\"%d\", {}1", "!".repeat(5000));
    assert!(Printer::new(&format_with(&unary)).unsupported().is_some());
    let long = format!("\"%d\", REC->i{}", " + REC->i".repeat(5000));
    let printer = Printer::new(&format_with(&long));
    assert_eq!(printer.unsupported(), Some("too many operators"));
    // Constants fold, however many.
    assert_eq!(print(&format!("\"%d\", 0{}", " + 1".repeat(5000))), "5000");
    let wide = print(r#""%*d%999999999s", 2000000000, 1, "x""#);
    assert_eq!(wide.len(), 2048);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any words in any order: no panic.
    #[test]
    fn any_format(
        words in prop::collection::vec(prop::sample::select(vec![
            "REC->i", "REC->addr", "REC->big", "REC", "->", "(", ")", "[", "]", "{", "}", ",", "?", ":",
            "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "~", "!", "&&", "==", "<", "1", "0", "0xffffffff",
            "\"%d\"", "\"%s %x\"", "\"x\"", "(int)", "(u8 *)", "sizeof", "__print_flags", "__get_str", "str",
            "__print_symbolic", "__print_array", "list", "__get_dynamic_array",
        ]), 0..24),
        payload in prop::collection::vec(any::<u8>(), 0..96),
    ) {
        let printer = Printer::new(&format_with(&format!("\"%d %s\", {}", words.join(" "))));
        for endian in [Endian::Little, Endian::Big] {
            let _ = printer.print(&payload, endian);
        }
    }
}
