//! Compressed sections and chunks of data, each unpacked within bounds.

use std::io::{Read, Seek};

use super::input::Input;
use super::meta::Packing;
use crate::ReadError;

/// Largest chunk of trace data, unpacked. trace-cmd makes chunks of ten pages.
pub(super) const CHUNK_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How much larger than its packed form a section may be, besides [`SECTION_BYTES_FREE`]. Formats and symbols shrink to a
/// tenth; the bound keeps a small file from asking for much memory.
const SECTION_RATIO_MAX: u64 = 256;
const SECTION_BYTES_FREE: u64 = 1024 * 1024;

/// Unpacks a section: packed size, unpacked size, data.
pub(super) fn unpack_section<R: Read + Seek>(
    input: &mut Input<R>,
    packing: Packing,
) -> Result<Vec<u8>, ReadError> {
    let start = input.position();
    let packed = u64::from(input.u32("the packed size of a section")?);
    let unpacked = u64::from(input.u32("the unpacked size of a section")?);
    let damaged =
        |what: String| ReadError::unusable(&input.file, start, "a compressed section", &what);
    if unpacked > SECTION_BYTES_FREE + SECTION_RATIO_MAX * packed {
        return Err(damaged(format!(
            "{unpacked} bytes said to be packed in {packed}"
        )));
    }
    let data = input.bytes(packed, "a compressed section")?;
    unpack(&data, unpacked, packing).ok_or_else(|| {
        ReadError::unusable(
            &input.file,
            start,
            &format!("a compressed section of {unpacked} bytes"),
            "data that cannot be unpacked to that",
        )
    })
}

/// Unpacks to exactly `len` bytes; `None` if that fails. No more memory than `len` is taken.
pub(super) fn unpack(data: &[u8], len: u64, packing: Packing) -> Option<Vec<u8>> {
    let capacity = usize::try_from(len).ok()?;
    let out = match packing {
        Packing::None => return None,
        Packing::Zlib => {
            let mut out = Vec::new();
            flate2::read::ZlibDecoder::new(data)
                .take(len)
                .read_to_end(&mut out)
                .ok()?;
            out
        }
        Packing::Zstd => zstd::bulk::Decompressor::new()
            .ok()?
            .decompress(data, capacity)
            .ok()?,
    };
    (out.len() == capacity).then_some(out)
}
