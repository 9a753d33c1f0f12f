//! A stream of `TracePacket`s, one at a time.

use std::io::{self, BufRead, Read};

/// Longest packet that is read, bytes. Perfetto's own are below one megabyte.
const PACKET_MAX: u64 = 16 * 1024 * 1024;
/// Key of `Trace.packet`.
const PACKET_KEY: u64 = 1 << 3 | 2;

/// What comes next in a stream.
#[derive(Debug)]
pub(super) enum Next {
    /// A packet, whole.
    Packet(Vec<u8>),
    /// A packet that is too long, skipped.
    TooLong,
    /// The stream ends within a packet.
    Cut(Vec<u8>),
    /// What stands here is no packet; nothing behind it can be found.
    Lost(&'static str),
    /// The end.
    End,
}

/// Packets of a file, or of the unpacked content of one packet.
pub(super) struct Packets<R> {
    input: R,
    /// Bytes taken so far.
    offset: u64,
}

impl<R: BufRead> Packets<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, offset: 0 }
    }

    /// Where the next packet begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn next(&mut self) -> io::Result<Next> {
        loop {
            let key = match self.varint()? {
                Varint::Value(key) => key,
                Varint::End => return Ok(Next::End),
                Varint::Cut => return Ok(Next::Cut(Vec::new())),
                Varint::TooLong => return Ok(Next::Lost("number of more than ten bytes")),
            };
            // Only packets are defined; fields that a later schema may add are skipped.
            let len = match (key & 7, key >> 3) {
                (_, 0) => return Ok(Next::Lost("field number 0")),
                (2, _) => match self.varint()? {
                    Varint::Value(len) => len,
                    Varint::TooLong => return Ok(Next::Lost("number of more than ten bytes")),
                    Varint::End | Varint::Cut => return Ok(Next::Cut(Vec::new())),
                },
                (0, _) => match self.varint()? {
                    Varint::Value(_) => continue,
                    Varint::TooLong => return Ok(Next::Lost("number of more than ten bytes")),
                    Varint::End | Varint::Cut => return Ok(Next::Cut(Vec::new())),
                },
                (1, _) => 8,
                (5, _) => 4,
                _ => return Ok(Next::Lost("unknown wire type")),
            };
            if key == PACKET_KEY && len <= PACKET_MAX {
                // Grows with what is there, not with what the length promises.
                let mut packet = Vec::new();
                self.input.by_ref().take(len).read_to_end(&mut packet)?;
                self.offset += packet.len() as u64;
                return Ok(if packet.len() as u64 == len {
                    Next::Packet(packet)
                } else {
                    Next::Cut(packet)
                });
            }
            let skipped = io::copy(&mut self.input.by_ref().take(len), &mut io::sink())?;
            self.offset += skipped;
            if skipped < len {
                return Ok(Next::Cut(Vec::new()));
            }
            if key == PACKET_KEY {
                return Ok(Next::TooLong);
            }
        }
    }

    fn varint(&mut self) -> io::Result<Varint> {
        let mut value = 0u64;
        for i in 0..10 {
            let mut byte = [0];
            loop {
                match self.input.read(&mut byte) {
                    Ok(0) if i == 0 => return Ok(Varint::End),
                    Ok(0) => return Ok(Varint::Cut),
                    Ok(_) => break,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            self.offset += 1;
            value |= u64::from(byte[0] & 0x7f) << (7 * i);
            if byte[0] & 0x80 == 0 {
                return Ok(Varint::Value(value));
            }
        }
        Ok(Varint::TooLong)
    }
}

enum Varint {
    Value(u64),
    End,
    Cut,
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(bytes: &[u8]) -> String {
        let mut packets = Packets::new(bytes);
        let mut out = String::new();
        loop {
            let next = packets.next().unwrap();
            out += &match &next {
                Next::Packet(body) => format!("{} ", body.len()),
                Next::TooLong => "long ".to_owned(),
                Next::Cut(body) => format!("cut {}", body.len()),
                Next::Lost(what) => (*what).to_owned(),
                Next::End => "end".to_owned(),
            };
            if !matches!(next, Next::Packet(_) | Next::TooLong) {
                return out;
            }
        }
    }

    #[test]
    fn streams() {
        assert_eq!(kinds(&[]), "end");
        assert_eq!(kinds(&[0x0a, 2, 8, 1, 0x0a, 0]), "2 0 end");
        // Fields of other numbers are skipped.
        assert_eq!(
            kinds(&[0x10, 0x80, 1, 0x1a, 1, 9, 0x25, 0, 0, 0, 0, 0x0a, 0]),
            "0 end"
        );
        assert_eq!(kinds(&[0x0a, 2, 8]), "cut 1");
        assert_eq!(kinds(&[0x0a]), "cut 0");
        // 2^35 bytes promised, one there.
        assert_eq!(kinds(&[0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 7]), "cut 0");
        assert_eq!(kinds(&[0x0b, 0]), "unknown wire type");
        assert_eq!(kinds(&[0xff; 12]), "number of more than ten bytes");
        let mut long = vec![0x0a, 0x81, 0x80, 0x80, 0x08];
        long.resize(5 + PACKET_MAX as usize + 1, 0);
        long.extend([0x0a, 0]);
        assert_eq!(kinds(&long), "long 0 end");
    }
}
