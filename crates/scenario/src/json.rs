//! JSON as rt-app files have it: ordered objects, repeated keys kept, comments and trailing commas let through.
//!
//! Every key and value knows where it was written, which no general parser offers together with repeated keys.

use crate::error::{Error, Place};
use crate::source::Source;

/// Objects and arrays nested deeper than this are refused, so that no input can exhaust the stack.
const DEPTH_LIMIT: usize = 64;

/// A value and where it starts.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Json {
    pub(crate) place: Place,
    pub(crate) value: JsonValue,
}

/// One `key: value` of an object.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) json: Json,
}

/// What a value is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum JsonValue {
    Null,
    Bool(bool),
    /// A whole number that fits.
    Integer(i64),
    /// Any other number, as written.
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(Vec<Member>),
}

impl Json {
    /// The value in a few words, for error messages.
    pub(crate) fn found(&self) -> String {
        match &self.value {
            JsonValue::Null => "null".into(),
            JsonValue::Bool(b) => format!("the boolean {b}"),
            JsonValue::Integer(n) => n.to_string(),
            JsonValue::Number(text) => format!("the number {text}"),
            JsonValue::String(s) => format!("the string {s:?}"),
            JsonValue::Array(_) => "an array".into(),
            JsonValue::Object(_) => "an object".into(),
        }
    }
}

/// Reads one JSON document; an empty one is an error.
pub(crate) fn parse(source: &Source<'_>) -> Result<Json, Error> {
    let mut p = Parser {
        source,
        bytes: source.text().as_bytes(),
        at: 0,
    };
    p.space()?;
    if p.peek().is_none() {
        return p.fail(0, "the file is empty; expected a JSON object");
    }
    let json = p.value(0)?;
    p.space()?;
    match p.peek() {
        None => Ok(json),
        Some(_) => p.fail(
            p.at,
            &format!("expected the end of the file, found {}", p.here()),
        ),
    }
}

struct Parser<'s, 'a> {
    source: &'s Source<'a>,
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_, '_> {
    fn fail<T>(&self, at: usize, problem: &str) -> Result<T, Error> {
        Err(Error::Syntax {
            place: self.source.place(at),
            problem: problem.into(),
        })
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// What stands at the current position, for error messages.
    fn here(&self) -> String {
        match self
            .source
            .text()
            .get(self.at..)
            .and_then(|s| s.chars().next())
        {
            None => "the end of the file".into(),
            Some(c) => format!("{c:?}"),
        }
    }

    /// Skips white space and comments of both kinds.
    fn space(&mut self) -> Result<(), Error> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                // A byte order mark at the very start.
                Some(0xef) if self.at == 0 && self.bytes.starts_with(b"\xef\xbb\xbf") => {
                    self.at = 3
                }
                Some(b'/') => match self.bytes.get(self.at + 1) {
                    Some(b'/') => {
                        self.at += self.bytes[self.at..]
                            .iter()
                            .position(|&b| b == b'\n')
                            .unwrap_or(self.bytes.len() - self.at);
                    }
                    Some(b'*') => {
                        let body = self.at + 2;
                        match self.bytes[body..].windows(2).position(|w| w == b"*/") {
                            Some(end) => self.at = body + end + 2,
                            None => return self.fail(self.at, "the comment `/*` has no end"),
                        }
                    }
                    _ => return self.fail(self.at, "expected a value, found '/'"),
                },
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, Error> {
        let start = self.at;
        if depth >= DEPTH_LIMIT {
            return self.fail(start, &format!("nested deeper than {DEPTH_LIMIT} levels"));
        }
        let value = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => JsonValue::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.word()?,
            _ => return self.fail(start, &format!("expected a value, found {}", self.here())),
        };
        Ok(Json {
            place: self.source.place(start),
            value,
        })
    }

    fn object(&mut self, depth: usize) -> Result<JsonValue, Error> {
        let open = self.at;
        self.at += 1;
        let mut members = Vec::new();
        loop {
            self.space()?;
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(JsonValue::Object(members));
                }
                Some(b'"') => {}
                None => return self.fail(open, "the object `{` has no end"),
                _ => {
                    return self.fail(
                        self.at,
                        &format!("expected a key in quotes or `}}`, found {}", self.here()),
                    );
                }
            }
            let key_place = self.source.place(self.at);
            let key = self.string()?;
            self.space()?;
            if self.peek() != Some(b':') {
                return self.fail(
                    self.at,
                    &format!("expected `:` after the key `{key}`, found {}", self.here()),
                );
            }
            self.at += 1;
            self.space()?;
            let json = self.value(depth + 1)?;
            members.push(Member {
                key,
                key_place,
                json,
            });
            self.separator(b'}', open, "object `{`")?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<JsonValue, Error> {
        let open = self.at;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.space()?;
            match self.peek() {
                Some(b']') => {
                    self.at += 1;
                    return Ok(JsonValue::Array(items));
                }
                None => return self.fail(open, "the array `[` has no end"),
                _ => {}
            }
            items.push(self.value(depth + 1)?);
            self.separator(b']', open, "array `[`")?;
        }
    }

    /// A comma, or the closing bracket, which is left for the caller.
    fn separator(&mut self, close: u8, open: usize, what: &str) -> Result<(), Error> {
        self.space()?;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(())
            }
            Some(b) if b == close => Ok(()),
            None => self.fail(open, &format!("the {what} has no end")),
            _ => self.fail(
                self.at,
                &format!(
                    "expected `,` or `{}`, found {}",
                    char::from(close),
                    self.here()
                ),
            ),
        }
    }

    fn string(&mut self) -> Result<String, Error> {
        let open = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let run = self.at;
            while self
                .peek()
                .is_some_and(|b| b != b'"' && b != b'\\' && b != b'\n')
            {
                self.at += 1;
            }
            // Cut at ASCII bytes, so always at a character boundary.
            out.push_str(self.source.text().get(run..self.at).unwrap_or_default());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                _ => return self.fail(open, "the string has no closing quote on its line"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Error> {
        let start = self.at;
        let kind = self.bytes.get(self.at + 1).copied();
        self.at += 2;
        Ok(match kind {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = self.hex4(start)?;
                let code = if (0xd800..0xdc00).contains(&high)
                    && self.bytes[self.at..].starts_with(b"\\u")
                {
                    self.at += 2;
                    let low = self.hex4(start)?;
                    0x10000 + ((high - 0xd800) << 10) + (low.wrapping_sub(0xdc00) & 0x3ff)
                } else {
                    high
                };
                // A lone surrogate is no character.
                char::from_u32(code).unwrap_or('\u{fffd}')
            }
            _ => {
                self.at = start;
                return self.fail(start, "unknown escape in a string");
            }
        })
    }

    fn hex4(&mut self, start: usize) -> Result<u32, Error> {
        let digits = self
            .source
            .text()
            .get(self.at..self.at + 4)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|d| u32::from_str_radix(d, 16).ok());
        match digits {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.fail(start, "expected four hexadecimal digits after `\\u`"),
        }
    }

    fn number(&mut self) -> Result<JsonValue, Error> {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
        {
            self.at += 1;
        }
        let text = &self.source.text()[start..self.at];
        if let Ok(n) = text.parse::<i64>() {
            return Ok(JsonValue::Integer(n));
        }
        // What Rust reads as a float and JSON does not: words such as `inf`, a trailing dot.
        let well_formed = text
            .bytes()
            .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        if well_formed && !text.ends_with('.') && text.parse::<f64>().is_ok() {
            return Ok(JsonValue::Number(text.into()));
        }
        self.fail(start, &format!("`{text}` is no number"))
    }

    fn word(&mut self) -> Result<JsonValue, Error> {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            self.at += 1;
        }
        // rt-app's examples write Python's spelling here and there.
        match &self.source.text()[start..self.at] {
            "true" | "True" => Ok(JsonValue::Bool(true)),
            "false" | "False" => Ok(JsonValue::Bool(false)),
            "null" => Ok(JsonValue::Null),
            other => self.fail(start, &format!("expected a value, found `{other}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Json, Error> {
        parse(&Source::new("w.json", text))
    }

    fn error(text: &str) -> String {
        parse_text(text).unwrap_err().to_string()
    }

    #[test]
    fn order_and_repeated_keys_are_kept_with_their_places() {
        let json =
            parse_text("{\n \"run\": 1, // one\n \"sleep\": 2,\n /* again */ \"run\": 3,\n}")
                .unwrap();
        let JsonValue::Object(members) = json.value else {
            panic!("no object")
        };
        let seen: Vec<String> = members
            .iter()
            .map(|m| format!("{}@{}={:?}", m.key, m.key_place, m.json.value))
            .collect();
        assert_eq!(
            seen,
            [
                "run@w.json:2:2=Integer(1)",
                "sleep@w.json:3:2=Integer(2)",
                "run@w.json:4:14=Integer(3)"
            ]
        );
    }

    #[test]
    fn numbers_keep_what_they_are() {
        let value = |t| parse_text(t).unwrap().value;
        assert_eq!(value("-12"), JsonValue::Integer(-12));
        assert_eq!(value("8000.5"), JsonValue::Number("8000.5".into()));
        assert_eq!(value("1e3"), JsonValue::Number("1e3".into()));
        assert_eq!(
            value("99999999999999999999"),
            JsonValue::Number("99999999999999999999".into())
        );
        assert_eq!(
            value(r#""a\u00e9\ud83d\ude00\n""#),
            JsonValue::String("aé😀\n".into())
        );
    }

    #[test]
    fn errors_say_where_and_what() {
        assert_eq!(
            error(""),
            "w.json:1:1: the file is empty; expected a JSON object"
        );
        assert_eq!(
            error("{\"a\": 1 \"b\": 2}"),
            "w.json:1:9: expected `,` or `}`, found '\"'"
        );
        assert_eq!(
            error("{\n  \"a\" 1}"),
            "w.json:2:7: expected `:` after the key `a`, found '1'"
        );
        assert_eq!(
            error("{\"a\": [1, 2"),
            "w.json:1:7: the array `[` has no end"
        );
        assert_eq!(error("{\"a\": 1"), "w.json:1:1: the object `{` has no end");
        assert_eq!(
            error("{\"a\": \"x\n\"}"),
            "w.json:1:7: the string has no closing quote on its line"
        );
        assert_eq!(error("/* x"), "w.json:1:1: the comment `/*` has no end");
        assert_eq!(error("{\"a\": 8ms}"), "w.json:1:7: `8ms` is no number");
        assert_eq!(
            error("{} {}"),
            "w.json:1:4: expected the end of the file, found '{'"
        );
        assert_eq!(
            error(&"[".repeat(100_000)),
            "w.json:1:65: nested deeper than 64 levels"
        );
    }
}
