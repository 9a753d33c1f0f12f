//! The text of an event: an interpreter of `print fmt:`.
//!
//! `print fmt:` is a `printf` format with C expressions over the event's fields. Understood are
//!
//! - integer arithmetic, comparison, logic, shifts, `?:`, casts and `sizeof`, with C's rules for `int` and `long long`;
//! - `REC->field`, `__entry->field`, array elements;
//! - `__get_str`, `__get_dynamic_array`, `__get_dynamic_array_len`, `__get_bitmask`, `__get_cpumask` and their `rel` forms;
//! - `__print_flags`, `__print_symbolic` (also `_u64`), `__print_hex`, `__print_hex_str`, `__print_array`;
//! - all integer conversions with flags, width, precision and `*`; `%s`, `%c`, `%p`, and of the kernel's extensions `%pM`, `%pI4`,
//!   `%pI6`, `%pI6c`, `%pIS[p]c`, `%pU*`. `%pS` and its like give the address.
//!
//! Where a format has something else (a function, a constant by name, a statement in brackets), [`Printer::unsupported`] says
//! what, and events come out as `name=value` pairs.

mod eval;
mod number;
mod output;
mod parse;
mod spec;
mod token;
mod types;

use std::fmt;

use self::eval::{Context, NoValue, Value};
use self::output::{Print, Shown};
use self::parse::Expr;
use self::spec::{Count, Piece, WIDTH_MAX};
use crate::{Endian, EventFormat, Field, FieldKind};

/// What a print format has that is not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Unsupported(String);

impl Unsupported {
    fn new(what: &str) -> Self {
        Self(what.to_owned())
    }
}

/// How the text of an event came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Printed {
    /// As the kernel prints it.
    AsKernel,
    /// The same, but where the kernel prints a text or function that only its own memory holds, there is the address.
    Addresses,
    /// As `name=value` pairs: the format is not understood ([`Printer::unsupported`]), or this payload lacks what it asks for.
    Pairs,
}

/// Prints events of one kind.
///
/// ```
/// use schedlab_tracefmt::{Endian, EventFormat, Printer};
///
/// let format = EventFormat::parse(b"\
/// name: demo
/// ID: 7
/// \tfield:u8 flags;\toffset:0;\tsize:1;\tsigned:0;
/// \tfield:__data_loc char[] name;\toffset:4;\tsize:4;\tsigned:0;
///
/// print fmt: \"%s: %s%s\", __get_str(name), REC->flags & 4 ? \"big \" : \"\", \
///     __print_flags(REC->flags & 3, \"|\", { 1, \"A\" }, { 2, \"B\" })
/// ").unwrap();
/// let printer = Printer::new(&format);
/// assert_eq!(printer.unsupported(), None);
/// let payload = [7, 0, 0, 0, 8, 0, 3, 0, b'x', b'y', 0];
/// assert_eq!(printer.print(&payload, Endian::Little), "xy: big A|B");
/// ```
#[derive(Clone, Debug)]
pub struct Printer {
    fields: Vec<Field>,
    /// The event's own fields begin here.
    common: usize,
    long_size: u8,
    program: Result<Program, Unsupported>,
}

#[derive(Clone, Debug)]
struct Program {
    pieces: Vec<Piece>,
    args: Vec<Expr>,
}

fn field_index(event: &EventFormat, name: &str) -> Option<usize> {
    event
        .all_fields()
        .iter()
        .position(|field| field.name() == name)
}

fn field_at(event: &EventFormat, index: usize) -> Option<&Field> {
    event.all_fields().get(index)
}

fn compile(event: &EventFormat) -> Result<Program, Unsupported> {
    let tokens = token::tokens(event.print_fmt())?;
    let parsed = parse::parse(&tokens, event)?;
    let pieces = spec::pieces(&parsed.format)?;
    let needed: usize = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(_) => 0,
            Piece::Conversion(c) => {
                let counts = [c.width, c.precision];
                1 + counts
                    .iter()
                    .filter(|count| **count == Some(Count::Argument))
                    .count()
            }
        })
        .sum();
    if needed > parsed.args.len() {
        return Err(Unsupported::new("more conversions than arguments"));
    }
    Ok(Program {
        pieces,
        args: parsed.args,
    })
}

impl Printer {
    /// Makes a printer; what its format has that is not understood is told by [`Printer::unsupported`].
    #[must_use]
    pub fn new(event: &EventFormat) -> Self {
        Self {
            fields: event.all_fields().to_vec(),
            common: event.common_fields().len(),
            long_size: event.long_size(),
            program: compile(event),
        }
    }

    /// What in `print fmt:` is not understood: "the function jiffies_to_msecs". `None` if all is.
    #[must_use]
    pub fn unsupported(&self) -> Option<&str> {
        self.program.as_ref().err().map(|error| error.0.as_str())
    }

    /// The text of an event; bytes that are no UTF-8 become U+FFFD.
    #[must_use]
    pub fn print(&self, payload: &[u8], endian: Endian) -> String {
        self.print_with_status(payload, endian).0
    }

    /// The same, and how the text came about.
    #[must_use]
    pub fn print_with_status(&self, payload: &[u8], endian: Endian) -> (String, Printed) {
        let context = Context {
            fields: &self.fields,
            payload,
            endian,
            long_size: self.long_size,
        };
        let mut out = Vec::new();
        if let Ok(program) = &self.program
            && let Ok(shown) = run(program, &context, &mut out)
        {
            let status = match shown {
                Shown::Whole => Printed::AsKernel,
                Shown::Address => Printed::Addresses,
            };
            // A line feed at the end, as trace_marker writes have it, is the kernel's own business.
            if out.last() == Some(&b'\n') {
                out.pop();
            }
            return (text(out), status);
        }
        out.clear();
        self.pairs(&context, &mut out);
        (text(out), Printed::Pairs)
    }

    fn pairs(&self, context: &Context<'_>, out: &mut Vec<u8>) {
        for field in self.fields.get(self.common..).unwrap_or_default() {
            if !out.is_empty() {
                out.push(b' ');
            }
            out.extend_from_slice(field.name().as_bytes());
            out.push(b'=');
            pair_value(field, context, out);
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// A value for a pair: text, decimal number, `{1,2}` for arrays, `?` outside the payload.
fn pair_value(field: &Field, context: &Context<'_>, out: &mut Vec<u8>) {
    let (payload, endian) = (context.payload, context.endian);
    if field.is_string() {
        return out.extend_from_slice(field.read_str(payload, endian).unwrap_or(b"?"));
    }
    let show = |value: i64| {
        if field.type_name().contains('*') {
            format!("{value:#x}")
        } else if field.is_signed() {
            value.to_string()
        } else {
            value.cast_unsigned().to_string()
        }
    };
    if field.kind() == FieldKind::Int {
        let value = field.read_int(payload, endian);
        return out.extend_from_slice(value.map_or("?".to_owned(), show).as_bytes());
    }
    match field.read_array(payload, endian) {
        Some(values) => {
            let values: Vec<String> = values.map(show).collect();
            out.extend_from_slice(format!("{{{}}}", values.join(",")).as_bytes());
        }
        None => out.push(b'?'),
    }
}

fn run(program: &Program, context: &Context<'_>, out: &mut Vec<u8>) -> Result<Shown, NoValue> {
    let mut args = program.args.iter();
    let mut shown = Shown::Whole;
    for piece in &program.pieces {
        let conversion = match piece {
            Piece::Text(text) => {
                out.extend_from_slice(text);
                continue;
            }
            Piece::Conversion(conversion) => conversion,
        };
        let mut count = |count: Option<Count>| -> Result<Option<i64>, NoValue> {
            Ok(match count {
                None => None,
                Some(Count::Fixed(n)) => Some(i64::try_from(n).unwrap_or(0)),
                Some(Count::Argument) => {
                    let value = context.number(args.next().ok_or(NoValue)?)?;
                    Some(value.bits.cast_signed())
                }
            })
        };
        let limit = i64::try_from(WIDTH_MAX).unwrap_or(i64::MAX);
        let width = count(conversion.width)?.unwrap_or(0).clamp(-limit, limit);
        // A negative precision is as none.
        let precision = count(conversion.precision)?.and_then(|p| usize::try_from(p).ok());
        let print = Print {
            conversion,
            width,
            precision: match conversion.kind {
                spec::Kind::Text => precision,
                _ => precision.map(|p| p.min(WIDTH_MAX)),
            },
        };
        let value: Value<'_> = context.value(args.next().ok_or(NoValue)?)?;
        if print.print(&value, context, out)? == Shown::Address {
            shown = Shown::Address;
        }
    }
    Ok(shown)
}

impl fmt::Display for Printer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unsupported() {
            None => f.write_str("as the kernel prints"),
            Some(what) => write!(f, "as name=value pairs, because of {what}"),
        }
    }
}
