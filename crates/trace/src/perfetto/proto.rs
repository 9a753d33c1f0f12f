//! As much of the protobuf wire format as writing a trace needs.
//!
//! <https://protobuf.dev/programming-guides/encoding/>: a field is a key (number and wire type) and a varint, or a key,
//! a length and bytes.

/// Appends a varint.
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field of an unsigned type, `bool` or enumeration.
pub(crate) fn uint(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, value);
}

/// Appends a field of `int32` or `int64`; negative ones take ten bytes on the wire.
pub(crate) fn int(out: &mut Vec<u8>, field: u32, value: i64) {
    uint(out, field, value as u64);
}

/// Appends a string, bytes or an encoded message.
pub(crate) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends a message that `body` fills.
pub(crate) fn message(out: &mut Vec<u8>, field: u32, body: impl FnOnce(&mut Vec<u8>)) {
    varint(out, u64::from(field) << 3 | 2);
    let start = out.len();
    body(out);
    // The length goes in front once it is known; messages are small, so moving them is cheap.
    let len = out.len() - start;
    let mut prefix = Vec::with_capacity(5);
    varint(&mut prefix, len as u64);
    out.splice(start..start, prefix);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_bytes() {
        // The examples of the encoding guide.
        let mut out = Vec::new();
        uint(&mut out, 1, 150);
        assert_eq!(out, [0x08, 0x96, 0x01]);
        out.clear();
        bytes(&mut out, 2, b"testing");
        assert_eq!(out, [&[0x12, 0x07][..], b"testing"].concat());
        out.clear();
        message(&mut out, 3, |out| uint(out, 1, 150));
        assert_eq!(out, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        out.clear();
        int(&mut out, 1, -2);
        assert_eq!(
            out,
            [
                0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01
            ]
        );
        out.clear();
        message(&mut out, 1, |out| bytes(out, 1, &[7; 200]));
        assert_eq!(out[..5], [0x0a, 0xcb, 0x01, 0x0a, 0xc8]);
        assert_eq!(out.len(), 3 + 203);
    }
}
