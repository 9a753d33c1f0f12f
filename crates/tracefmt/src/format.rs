//! The `format` file of a tracepoint.

use std::fmt;

use crate::field::{Field, FieldKind};

/// Largest `format` text that is taken, bytes. The longest of a 6.18 kernel has 44 KiB.
pub const FORMAT_BYTES_MAX: usize = 1024 * 1024;

/// What is wrong with a `format` text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A line that must be there is not.
    #[error("no line \"{0}\"")]
    Missing(&'static str),
    /// A line that cannot be understood.
    #[error("line {line}: {what}: {text}")]
    Line {
        /// Number, counted from 1.
        line: usize,
        /// What was expected.
        what: &'static str,
        /// The line.
        text: String,
    },
    /// A number that no payload can carry.
    #[error("ID: {0} has more than 16 bits")]
    Id(u32),
    /// Longer than [`FORMAT_BYTES_MAX`].
    #[error("{0} bytes, at most {FORMAT_BYTES_MAX} are taken")]
    TooLong(usize),
    /// Not UTF-8.
    #[error("not text: byte {0} is no UTF-8")]
    NotText(usize),
}

/// A tracepoint's description of its own payload: the content of `/sys/kernel/tracing/events/SYSTEM/EVENT/format`.
///
/// ```
/// use schedlab_tracefmt::{Endian, EventFormat};
///
/// let format = EventFormat::parse(b"\
/// name: sched_wakeup
/// ID: 374
/// format:
/// \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
/// \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
///
/// \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
/// \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
///
/// print fmt: \"comm=%s pid=%d\", REC->comm, REC->pid
/// ").unwrap();
/// assert_eq!((format.name(), format.id()), ("sched_wakeup", 374));
///
/// let payload = b"\x76\x01\0\0\x07\0\0\0my task\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff";
/// let pid = format.field("pid").unwrap();
/// assert_eq!(pid.read_int(payload, Endian::Little), Some(-1));
/// let comm = format.field("comm").unwrap();
/// assert_eq!(comm.read_str(payload, Endian::Little), Some(&b"my task"[..]));
/// // Past the end of the payload there is nothing, and no panic.
/// assert_eq!(pid.read_int(&payload[..27], Endian::Little), None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventFormat {
    name: String,
    id: u32,
    fields: Vec<Field>,
    common: usize,
    print_fmt: String,
    long_size: u8,
}

impl EventFormat {
    /// Reads a `format` text of a kernel with 64-bit `long`.
    ///
    /// # Errors
    /// [`FormatError`] names the line.
    pub fn parse(text: &[u8]) -> Result<Self, FormatError> {
        Self::parse_with(text, 8)
    }

    /// The same for a kernel whose `long` has `long_size` bytes (4 or 8). It matters for dynamic arrays of `long` and for `%lx` in
    /// the print format.
    ///
    /// # Errors
    /// [`FormatError`] names the line.
    pub fn parse_with(text: &[u8], long_size: u8) -> Result<Self, FormatError> {
        if text.len() > FORMAT_BYTES_MAX {
            return Err(FormatError::TooLong(text.len()));
        }
        let text =
            std::str::from_utf8(text).map_err(|error| FormatError::NotText(error.valid_up_to()))?;
        let (head, print_fmt) = match text.split_once("print fmt:") {
            Some((head, rest)) => (head, rest.trim()),
            None => (text, ""),
        };
        let name = value(head, "name:").ok_or(FormatError::Missing("name:"))?;
        let id = event_id(head)?;
        let mut fields = fields(head, long_size)?;
        // Common fields come first; a stable order keeps both groups as they stand.
        fields.sort_by_key(|field| !field.name.starts_with("common_"));
        let common = fields.partition_point(|field| field.name.starts_with("common_"));
        Ok(Self {
            name: name.to_owned(),
            id,
            fields,
            common,
            print_fmt: print_fmt.to_owned(),
            long_size,
        })
    }

    /// The number of the event alone, for sorting many texts before they are parsed.
    ///
    /// # Errors
    /// [`FormatError`] if the text is too long or has no number.
    pub fn peek_id(text: &[u8]) -> Result<u32, FormatError> {
        if text.len() > FORMAT_BYTES_MAX {
            return Err(FormatError::TooLong(text.len()));
        }
        // The number stands in the second line.
        let head = text.get(..text.len().min(1024)).unwrap_or_default();
        event_id(&String::from_utf8_lossy(head))
    }

    /// Name without the subsystem.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number that the first two bytes of a payload (`common_type`) repeat.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The fields that all events of the kernel share (`common_type`, `common_pid`, ...).
    #[must_use]
    pub fn common_fields(&self) -> &[Field] {
        self.fields.get(..self.common).unwrap_or_default()
    }

    /// The event's own fields.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        self.fields.get(self.common..).unwrap_or_default()
    }

    /// A field by name, common ones included. Look it up once and keep it: the search is linear.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// All fields, common ones first.
    pub(crate) fn all_fields(&self) -> &[Field] {
        &self.fields
    }

    /// The text behind `print fmt:`, empty if there is none. [`Printer`](crate::Printer) interprets it.
    #[must_use]
    pub fn print_fmt(&self) -> &str {
        &self.print_fmt
    }

    /// Bytes of a `long` in this kernel.
    #[must_use]
    pub fn long_size(&self) -> u8 {
        self.long_size
    }
}

impl fmt::Display for EventFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}, {} fields)",
            self.name,
            self.id,
            self.fields().len()
        )
    }
}

fn event_id(head: &str) -> Result<u32, FormatError> {
    let id = value(head, "ID:").ok_or(FormatError::Missing("ID:"))?;
    id.parse().map_err(|_| FormatError::Line {
        line: line_of(head, "ID:"),
        what: "expected a number below 2^32",
        text: format!("ID: {id}"),
    })
}

/// The rest of the first line that starts with a key.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .map(str::trim)
}

fn line_of(text: &str, key: &str) -> usize {
    text.lines()
        .position(|line| line.starts_with(key))
        .map_or(0, |at| at + 1)
}

/// All `field:` lines of a text, which `header_page` has too.
pub(crate) fn fields(text: &str, long_size: u8) -> Result<Vec<Field>, FormatError> {
    let mut out = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix("field:") else {
            continue;
        };
        let field = field(rest, long_size).map_err(|what| FormatError::Line {
            line: number + 1,
            what,
            text: line.trim().chars().take(120).collect(),
        })?;
        out.push(field);
    }
    Ok(out)
}

/// What stands behind `field:`; its parts end with semicolons.
fn field(text: &str, long_size: u8) -> Result<Field, &'static str> {
    let mut parts = text.split(';');
    let declaration = parts.next().unwrap_or_default().trim();
    let (mut offset, mut size, mut signed) = (None, None, None);
    for part in parts {
        match part.trim().split_once(':') {
            Some(("offset", value)) => offset = value.trim().parse().ok(),
            Some(("size", value)) => size = value.trim().parse().ok(),
            Some(("signed", value)) => signed = Some(value.trim() != "0"),
            _ => {}
        }
    }
    let offset = offset.ok_or("expected offset: and a number")?;
    let size: u32 = size.ok_or("expected size: and a number")?;
    let (name, type_name, kind) =
        split_declaration(declaration, size, long_size).ok_or("expected a type and a name")?;
    Ok(Field {
        // Kernels before 2.6.34 do not say `signed:`.
        signed: signed.unwrap_or_else(|| signed_by_name(&type_name)),
        name,
        type_name,
        offset,
        size,
        kind,
    })
}

/// Name, type and kind from a C declaration.
fn split_declaration(text: &str, size: u32, long_size: u8) -> Option<(String, String, FieldKind)> {
    let (location, text) = if let Some(rest) = text.strip_prefix("__data_loc ") {
        (Some(true), rest)
    } else if let Some(rest) = text.strip_prefix("__rel_loc ") {
        (Some(false), rest)
    } else {
        (None, text)
    };
    let text = text.trim();
    if let Some(data_loc) = location {
        // `char[] name`: the brackets belong to the type.
        let (type_name, name) = split_name(text)?;
        let type_name = type_name.split('[').next().unwrap_or_default().trim();
        let element = size_by_name(type_name, long_size).unwrap_or(1);
        let kind = if data_loc {
            FieldKind::DataLoc { element }
        } else {
            FieldKind::RelLoc { element }
        };
        return Some((name.to_owned(), type_name.to_owned(), kind));
    }
    let Some((before, brackets)) = text.split_once('[') else {
        let (type_name, name) = split_name(text)?;
        return Some((name.to_owned(), type_name.to_owned(), FieldKind::Int));
    };
    let (type_name, name) = split_name(before.trim())?;
    // The length may be an expression (`[sizeof(struct x)]`); then the type tells the size of an element.
    let counts: Option<u32> = brackets
        .split('[')
        .map(|part| part.trim().strip_suffix(']')?.trim().parse::<u32>().ok())
        .try_fold(1u32, |product, n| product.checked_mul(n?));
    let element = match counts {
        Some(n) if n > 0 && size.is_multiple_of(n) => size / n,
        _ => size_by_name(type_name, long_size).unwrap_or(1),
    };
    Some((
        name.to_owned(),
        type_name.to_owned(),
        FieldKind::Array { element },
    ))
}

/// The last identifier and what is in front of it.
fn split_name(text: &str) -> Option<(&str, &str)> {
    // `int (*fn)(void)`: a pointer to a function.
    if let Some((before, rest)) = text.split_once("(*")
        && let Some((name, _)) = rest.split_once(')')
    {
        return Some((before.trim(), name.trim()));
    }
    let start = text
        .char_indices()
        .rev()
        .take_while(|(_, c)| c.is_alphanumeric() || *c == '_')
        .last()?
        .0;
    let (type_name, name) = text.split_at(start);
    Some((type_name.trim(), name))
}

fn size_by_name(type_name: &str, long_size: u8) -> Option<u32> {
    let base = type_name
        .trim_start_matches("const ")
        .trim_start_matches("unsigned ")
        .trim_start_matches("signed ");
    Some(match base {
        "char" | "u8" | "__u8" | "s8" | "__s8" | "uint8_t" | "int8_t" | "bool" => 1,
        "short" | "short int" | "u16" | "__u16" | "s16" | "__s16" | "__le16" | "__be16"
        | "uint16_t" | "int16_t" => 2,
        "int" | "unsigned" | "u32" | "__u32" | "s32" | "__s32" | "__le32" | "__be32"
        | "uint32_t" | "int32_t" | "pid_t" => 4,
        "long long" | "u64" | "__u64" | "s64" | "__s64" | "__le64" | "__be64" | "uint64_t"
        | "int64_t" => 8,
        "long" | "long int" | "size_t" | "ssize_t" | "uintptr_t" => u32::from(long_size),
        pointer if pointer.ends_with('*') => u32::from(long_size),
        _ => return None,
    })
}

fn signed_by_name(type_name: &str) -> bool {
    matches!(
        type_name.trim_start_matches("const "),
        "char" | "short" | "int" | "long" | "long long" | "s8" | "s16" | "s32" | "s64" | "pid_t"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(declaration: &str, size: u32) -> Field {
        let line = format!("\tfield:{declaration};\toffset:8;\tsize:{size};\tsigned:1;");
        fields(&line, 8).unwrap().remove(0)
    }

    #[test]
    fn declarations() {
        let element = |element| FieldKind::Array { element };
        let data = |element| FieldKind::DataLoc { element };
        for (text, size, name, type_name, kind) in [
            ("pid_t pid", 4, "pid", "pid_t", FieldKind::Int),
            (
                "const char * name",
                8,
                "name",
                "const char *",
                FieldKind::Int,
            ),
            (
                "struct cgroup *dst",
                8,
                "dst",
                "struct cgroup *",
                FieldKind::Int,
            ),
            ("int (*fn)(void)", 8, "fn", "int", FieldKind::Int),
            ("char comm[16]", 16, "comm", "char", element(1)),
            (
                "unsigned long args[6]",
                48,
                "args",
                "unsigned long",
                element(8),
            ),
            (
                "u8 addr[sizeof(struct sockaddr_in6)]",
                28,
                "addr",
                "u8",
                element(1),
            ),
            ("char names[4][8]", 32, "names", "char", element(1)),
            ("u16 odd[0]", 0, "odd", "u16", element(2)),
            ("__data_loc char[] msg", 4, "msg", "char", data(1)),
            (
                "__data_loc unsigned long[] cpus",
                4,
                "cpus",
                "unsigned long",
                data(8),
            ),
            ("__data_loc u64[] a", 4, "a", "u64", data(8)),
            (
                "__rel_loc char[] msg",
                4,
                "msg",
                "char",
                FieldKind::RelLoc { element: 1 },
            ),
        ] {
            let field = one(text, size);
            assert_eq!(
                (field.name(), field.type_name(), field.kind()),
                (name, type_name, kind),
                "{text}"
            );
        }
    }

    #[test]
    fn old_kernels_do_not_say_signed() {
        let line =
            "\tfield:int a;\toffset:0;\tsize:4;\n\tfield:unsigned int b;\toffset:4;\tsize:4;";
        let fields = fields(line, 8).unwrap();
        assert_eq!((fields[0].signed, fields[1].signed), (true, false));
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| EventFormat::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("x"), "no line \"name:\"");
        assert_eq!(error("name: a\n"), "no line \"ID:\"");
        assert_eq!(
            error("name: a\nID: -1\n"),
            "line 2: expected a number below 2^32: ID: -1"
        );
        assert_eq!(
            error("name: a\nID: 1\nformat:\n\tfield:int x;\toffset:0;\tsigned:1;\n"),
            "line 4: expected size: and a number: field:int x;\toffset:0;\tsigned:1;"
        );
        assert_eq!(
            error("name: a\nID: 1\n\tfield:[3];\toffset:0;\tsize:1;\n"),
            "line 3: expected a type and a name: field:[3];\toffset:0;\tsize:1;"
        );
        assert_eq!(
            EventFormat::parse(b"name: \xff").unwrap_err(),
            FormatError::NotText(6)
        );
        let long = vec![b' '; FORMAT_BYTES_MAX + 1];
        assert!(matches!(
            EventFormat::parse(&long),
            Err(FormatError::TooLong(_))
        ));
    }
}
