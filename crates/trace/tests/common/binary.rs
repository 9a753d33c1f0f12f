//! Small `trace.dat` files and ring-buffer pages of any byte order, made by the rules of trace-cmd.dat.v6(5) and v7(5).
#![allow(dead_code)]

use std::io::Write;

use schedlab_tracefmt::Endian;

/// How a file is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) version: u8,
    pub(crate) endian: Endian,
    pub(crate) long_size: usize,
    pub(crate) compression: &'static str,
}

pub(crate) const PLAIN: Shape = Shape {
    version: 6,
    endian: Endian::Little,
    long_size: 8,
    compression: "none",
};

/// Bytes of a page: small, so that few events fill several.
pub(crate) const PAGE: usize = 256;

/// Numbers in the file's byte order.
impl Shape {
    pub(crate) fn put(&self, value: u64, size: usize) -> Vec<u8> {
        let mut out = value.to_le_bytes()[..size].to_vec();
        if self.endian == Endian::Big {
            out.reverse();
        }
        out
    }

    fn record_header(&self, kind: u32, delta: u32) -> Vec<u8> {
        let word = match self.endian {
            Endian::Little => delta << 5 | kind,
            Endian::Big => kind << 27 | delta,
        };
        self.put(word.into(), 4)
    }

    /// `common_type`, flags, preempt count, pid.
    fn common(&self, id: u64, pid: u64) -> Vec<u8> {
        [self.put(id, 2), vec![1, 2], self.put(pid, 4)].concat()
    }

    pub(crate) fn waking(&self, pid: u64, comm: &str) -> Vec<u8> {
        let mut name = comm.as_bytes().to_vec();
        name.resize(16, 0);
        let mut out = self.common(20, 7);
        out.extend(name);
        for value in [pid, 120, 1] {
            out.extend(self.put(value, 4));
        }
        out
    }

    pub(crate) fn switch(&self, state: u64) -> Vec<u8> {
        let mut out = self.common(10, 7);
        let task = [
            &b"one\0\0\0\0\0\0\0\0\0\0\0\0\0"[..],
            &self.put(7, 4),
            &self.put(120, 4),
        ];
        out.extend(task.concat());
        out.extend(self.put(state, self.long_size));
        out.extend(task.concat());
        out
    }

    /// A page whose records come at these times. `flags` go into the commit word; `lost` behind the data.
    pub(crate) fn page(
        &self,
        records: &[(u64, Vec<u8>)],
        flags: u64,
        lost: Option<u64>,
    ) -> Vec<u8> {
        let start = records.first().map_or(0, |r| r.0);
        let mut data = Vec::new();
        let mut last = start;
        for (ts, payload) in records {
            let delta = ts - last;
            if delta >> 27 != 0 {
                data.extend(self.record_header(30, (delta & 0x7ff_ffff) as u32));
                data.extend(self.put(delta >> 27, 4));
            }
            let delta = if delta >> 27 != 0 { 0 } else { delta as u32 };
            data.extend(self.record_header(payload.len() as u32 / 4, delta));
            data.extend(payload);
            last = *ts;
        }
        let mut out = self.put(start, 8);
        out.extend(self.put(data.len() as u64 | flags, self.long_size));
        out.extend(data);
        if let Some(lost) = lost {
            out.extend(self.put(lost, self.long_size));
        }
        assert!(out.len() <= PAGE, "{}", out.len());
        out.resize(PAGE, 0);
        out
    }

    pub(crate) fn header_page(&self) -> String {
        let data = 8 + self.long_size;
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{};\tsigned:1;\n\
             \tfield: char data;\toffset:{data};\tsize:{};\tsigned:0;\n",
            self.long_size,
            PAGE - data
        )
    }

    pub(crate) fn formats(&self) -> [String; 2] {
        let common = "\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
            \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
        let long = self.long_size;
        let next = 32 + long;
        let switch = format!(
            "name: sched_switch\nID: 10\nformat:\n{common}\n\
             \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
             \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
             \tfield:long prev_state;\toffset:32;\tsize:{long};\tsigned:1;\n\
             \tfield:char next_comm[16];\toffset:{next};\tsize:16;\tsigned:0;\n\
             \tfield:pid_t next_pid;\toffset:{};\tsize:4;\tsigned:1;\n\
             \tfield:int next_prio;\toffset:{};\tsize:4;\tsigned:1;\n\n\
             print fmt: \"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s \
             next_pid=%d next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, \
             REC->prev_state & 0xff ? __print_flags(REC->prev_state & 0xff, \"|\", {{ 1, \"S\" }}, \
             {{ 2, \"D\" }}) : \"R\", REC->prev_state & 0x100 ? \"+\" : \"\", REC->next_comm, \
             REC->next_pid, REC->next_prio\n",
            next + 16,
            next + 20
        );
        let waking = format!(
            "name: sched_waking\nID: 20\nformat:\n{common}\n\
             \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
             \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
             \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n"
        );
        [switch, waking]
    }

    fn texts(&self, texts: &[String]) -> Vec<u8> {
        let mut out = self.put(texts.len() as u64, 4);
        for text in texts {
            out.extend(self.put(text.len() as u64, 8));
            out.extend(text.as_bytes());
        }
        out
    }

    fn header_info(&self) -> Vec<u8> {
        let event = "\ttype_len : 5 bits\n\ttime_delta : 27 bits\n\tarray : 32 bits\n\
                     \tpadding : type == 29\n\ttime_extend : type == 30\n";
        let mut out = Vec::new();
        for (name, text) in [
            ("header_page", self.header_page()),
            ("header_event", event.into()),
        ] {
            out.extend(name.as_bytes());
            out.push(0);
            out.extend(self.put(text.len() as u64, 8));
            out.extend(text.as_bytes());
        }
        out
    }

    fn event_formats(&self) -> Vec<u8> {
        [
            self.put(1, 4),
            b"sched\0".to_vec(),
            self.texts(&self.formats()),
        ]
        .concat()
    }

    fn cmdlines(&self) -> Vec<u8> {
        let text = b"7 one\n";
        [self.put(text.len() as u64, 8), text.to_vec()].concat()
    }

    fn option(&self, id: u64, data: &[u8]) -> Vec<u8> {
        [
            self.put(id, 2),
            self.put(data.len() as u64, 4),
            data.to_vec(),
        ]
        .concat()
    }

    fn options(&self, more: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut out = self.option(4, b"local global [mono]\0");
        out.extend(self.option(5, b"Linux host 6.18.1 x86_64\0"));
        out.extend(self.option(2, b"CPU: 1\nentries: 3\noverrun: 4\n\0"));
        out.extend(self.option(8, &self.put(2, 4)));
        for (id, data) in more {
            out.extend(self.option(*id, data));
        }
        out
    }

    fn pack(&self, data: &[u8]) -> Vec<u8> {
        match self.compression {
            "zlib" => {
                let level = flate2::Compression::fast();
                let mut out = flate2::write::ZlibEncoder::new(Vec::new(), level);
                out.write_all(data).unwrap();
                out.finish().unwrap()
            }
            "zstd" => zstd::bulk::compress(data, 1).unwrap(),
            _ => data.to_vec(),
        }
    }

    /// Packed size, unpacked size, data.
    pub(crate) fn packed(&self, data: &[u8]) -> Vec<u8> {
        let packed = self.pack(data);
        let sizes = [packed.len(), data.len()].map(|size| self.put(size as u64, 4));
        [sizes.concat(), packed].concat()
    }

    fn section(&self, id: u64, data: &[u8]) -> Vec<u8> {
        let (flag, data) = match self.compression {
            "none" => (0, data.to_vec()),
            _ => (1, self.packed(data)),
        };
        let size = data.len() as u64;
        let head = [
            self.put(id, 2),
            self.put(flag, 2),
            self.put(0, 4),
            self.put(size, 8),
        ];
        [head.concat(), data].concat()
    }

    fn start(&self) -> Vec<u8> {
        let mut out = b"\x17\x08\x44tracing".to_vec();
        out.extend([b'0' + self.version, 0]);
        out.push(u8::from(self.endian == Endian::Big));
        out.push(self.long_size as u8);
        out.extend(self.put(PAGE as u64, 4));
        out
    }

    /// A whole file with the pages of each CPU.
    pub(crate) fn file(&self, cpus: &[Vec<Vec<u8>>], more: &[(u64, Vec<u8>)]) -> Vec<u8> {
        if self.version == 6 {
            self.file_v6(cpus, more)
        } else {
            self.file_v7(cpus, more)
        }
    }

    fn before_data_v6(&self, cpus: usize, more: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut out = self.start();
        out.extend(self.header_info());
        out.extend(self.texts(&[]));
        out.extend(self.event_formats());
        for _ in 0..2 {
            out.extend(self.put(3, 4));
            out.extend(b"abc");
        }
        out.extend(self.cmdlines());
        out.extend(self.put(cpus as u64, 4));
        out.extend(b"options  \0");
        out.extend(self.options(more));
        out.extend(self.put(0, 2));
        out
    }

    fn file_v6(&self, cpus: &[Vec<Vec<u8>>], more: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut out = self.before_data_v6(cpus.len(), more);
        out.extend(b"flyrecord\0");
        let mut at = (out.len() + 16 * cpus.len() + 8 + 7).next_multiple_of(PAGE);
        for pages in cpus {
            out.extend(self.put(at as u64, 8));
            out.extend(self.put((pages.len() * PAGE) as u64, 8));
            at += pages.len() * PAGE;
        }
        out.extend(self.put(7, 8));
        out.extend(b"[local]");
        out.resize(out.len().next_multiple_of(PAGE), 0);
        out.extend(cpus.concat().concat());
        out
    }

    fn file_v7(&self, cpus: &[Vec<Vec<u8>>], more: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut out = self.start();
        out.extend(self.compression.as_bytes());
        out.extend([0, b'1', 0]);
        let options_at = out.len();
        out.extend(self.put(0, 8));
        let mut options = self.options(more);
        for (id, data) in [
            (16, self.header_info()),
            (17, self.texts(&[])),
            (18, self.event_formats()),
            (21, self.cmdlines()),
        ] {
            options.extend(self.option(id, &self.put(out.len() as u64, 8)));
            out.extend(self.section(id, &data));
        }
        let flag = u64::from(self.compression != "none");
        let mut buffer = self.put(out.len() as u64, 8);
        out.extend([self.put(3, 2), self.put(flag, 2), vec![0; 12]].concat());
        buffer.extend(b"\0local\0");
        buffer.extend(self.put(PAGE as u64, 4));
        buffer.extend(self.put(cpus.len() as u64, 4));
        for (cpu, pages) in cpus.iter().enumerate() {
            out.resize(out.len().next_multiple_of(PAGE), 0);
            let data = self.data_v7(pages);
            buffer.extend(self.put(cpu as u64, 4));
            buffer.extend(self.put(out.len() as u64, 8));
            let size = if flag == 1 {
                data.len() - 4
            } else {
                data.len()
            };
            buffer.extend(self.put(size as u64, 8));
            out.extend(data);
        }
        // The buffers come in a second section of options.
        let second = out.len() as u64;
        let more = [self.option(3, &buffer), self.option(0, &self.put(0, 8))].concat();
        out.extend(self.section(0, &more));
        let first = out.len() as u64;
        options.extend(self.option(0, &self.put(second, 8)));
        out.extend(self.section(0, &options));
        out[options_at..options_at + 8].copy_from_slice(&self.put(first, 8));
        out
    }

    /// Pages as they are, or in chunks of two.
    fn data_v7(&self, pages: &[Vec<u8>]) -> Vec<u8> {
        if self.compression == "none" {
            return pages.concat();
        }
        let mut out = self.put(pages.len().div_ceil(2) as u64, 4);
        for chunk in pages.chunks(2) {
            out.extend(self.packed(&chunk.concat()));
        }
        out
    }

    /// A file of a latency tracer: text in place of pages.
    pub(crate) fn text_file(&self, text: &str) -> Vec<u8> {
        if self.version == 6 {
            let mut out = self.before_data_v6(2, &[]);
            out.extend(b"latency  \0");
            out.extend(text.as_bytes());
            return out;
        }
        // Far enough behind the rest, whatever its packed size.
        let at = 4096;
        let option = [self.put(at as u64, 8), b"\0local\0".to_vec()].concat();
        let mut out = self.file(&[], &[(22, option)]);
        assert!(out.len() <= at);
        out.resize(at, 0);
        let (flag, data) = match self.compression {
            "none" => (0, text.as_bytes().to_vec()),
            _ => (1, [self.put(1, 4), self.packed(text.as_bytes())].concat()),
        };
        let size = data.len() as u64 - 4 * flag;
        out.extend([self.put(22, 2), self.put(flag, 2), self.put(0, 4)].concat());
        out.extend(self.put(size, 8));
        out.extend(data);
        out
    }
}
