//! Types of C and of the kernel, as far as numbers go.

use super::number::Num;
use super::token::NumberToken;

/// A C type, as far as its numbers go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Type {
    pub(super) bytes: u32,
    pub(super) unsigned: bool,
    pub(super) pointer: bool,
}

/// The first type of C that holds the number.
pub(super) fn literal(number: NumberToken, long_size: u8) -> Num {
    let wide_suffix = number.long && long_size == 8;
    let fits_int = number.value <= 0x7fff_ffff;
    let fits_uint = number.value <= 0xffff_ffff;
    let may_be_unsigned = number.unsigned || number.hex;
    let wide = wide_suffix || !(fits_int || fits_uint && may_be_unsigned);
    let over_signed = if wide {
        number.value > i64::MAX.cast_unsigned()
    } else {
        !fits_int
    };
    Num::of_type(
        number.value,
        if wide { 8 } else { 4 },
        number.unsigned || over_signed,
    )
}

pub(super) fn is_type(word: &str) -> bool {
    word.ends_with("_t") || matches!(word, "struct" | "union" | "enum" | "void")
}

/// Size and sign of a type in words.
pub(super) fn c_type(words: &[String], long_size: u8) -> Option<Type> {
    let (mut bytes, mut unsigned, mut longs, mut known) = (4, false, 0, false);
    for word in words {
        known = true;
        match word.as_str() {
            "const" | "volatile" | "int" | "signed" | "__force" => {}
            "unsigned" => unsigned = true,
            "long" => longs += 1,
            "short" => bytes = 2,
            "char" => bytes = 1,
            "void" => (bytes, unsigned) = (1, true),
            "bool" | "_Bool" | "u8" | "__u8" | "uint8_t" => (bytes, unsigned) = (1, true),
            "s8" | "__s8" | "int8_t" => bytes = 1,
            "u16" | "__u16" | "__le16" | "__be16" | "uint16_t" | "umode_t" | "sa_family_t" => {
                (bytes, unsigned) = (2, true);
            }
            "s16" | "__s16" | "int16_t" => bytes = 2,
            "uint" | "u32" | "__u32" | "__le32" | "__be32" | "uint32_t" | "gfp_t" | "dev_t"
            | "uid_t" | "gid_t" | "fmode_t" | "blk_opf_t" => (bytes, unsigned) = (4, true),
            "__kernel_rwf_t" | "s32" | "__s32" | "int32_t" | "pid_t" | "enum" => bytes = 4,
            "u64" | "__u64" | "__le64" | "__be64" | "uint64_t" | "sector_t" | "dma_addr_t"
            | "phys_addr_t" | "resource_size_t" | "ino_t" | "gpa_t" | "gfn_t" => {
                (bytes, unsigned) = (8, true);
            }
            "s64" | "__s64" | "int64_t" | "loff_t" | "ktime_t" | "time64_t" => bytes = 8,
            "size_t" | "uintptr_t" => (bytes, unsigned) = (u32::from(long_size), true),
            "ssize_t" | "intptr_t" => bytes = u32::from(long_size),
            // The name behind `enum`.
            _ if words.first().is_some_and(|first| first == "enum") => {}
            _ => return None,
        }
    }
    match longs {
        0 => {}
        1 => bytes = u32::from(long_size),
        _ => bytes = 8,
    }
    known.then_some(Type {
        bytes,
        unsigned,
        pointer: false,
    })
}
