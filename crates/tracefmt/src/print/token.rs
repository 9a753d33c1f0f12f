//! Words of the C expressions behind `print fmt:`.

use super::Unsupported;

/// One word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// Identifier or keyword.
    Name(String),
    /// Number with its suffix, or a character.
    Number(NumberToken),
    /// String with escapes undone.
    Text(Vec<u8>),
    /// Operator or bracket.
    Mark(&'static str),
}

/// A number as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NumberToken {
    pub(super) value: u64,
    pub(super) hex: bool,
    pub(super) unsigned: bool,
    pub(super) long: bool,
}

/// Longest first, so that `<<` is not two `<`.
const MARKS: [&str; 37] = [
    "...", "<<=", ">>=", "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "[", "]",
    "{", "}", ",", "?", ":", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", "=", ".",
    ";", "#",
];

/// Splits a text into words.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Unsupported> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        if byte.is_ascii_whitespace() {
            at += 1;
        } else if byte == b'"' {
            let (text, used) = quoted(rest, b'"')?;
            out.push(Token::Text(text));
            at += used;
        } else if byte == b'\'' {
            let (text, used) = quoted(rest, b'\'')?;
            let &[value] = &text[..] else {
                return Err(Unsupported::new("a character of several bytes"));
            };
            out.push(Token::Number(NumberToken {
                value: u64::from(value),
                hex: false,
                unsigned: false,
                long: false,
            }));
            at += used;
        } else if byte.is_ascii_digit() {
            let len = word_length(rest);
            out.push(Token::Number(number(rest.get(..len).unwrap_or_default())?));
            at += len;
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            let len = word_length(rest);
            let word = rest.get(..len).unwrap_or_default();
            out.push(Token::Name(String::from_utf8_lossy(word).into_owned()));
            at += len;
        } else if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(mark.as_bytes())) {
            out.push(Token::Mark(mark));
            at += mark.len();
        } else {
            let shown = rest.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            let shown: String = shown.chars().take(1).collect();
            return Err(Unsupported(format!("the character {shown:?}")));
        }
    }
    Ok(out)
}

fn word_length(rest: &[u8]) -> usize {
    rest.iter()
        .position(|b| !b.is_ascii_alphanumeric() && *b != b'_')
        .unwrap_or(rest.len())
}

fn number(word: &[u8]) -> Result<NumberToken, Unsupported> {
    let text = String::from_utf8_lossy(word).to_ascii_lowercase();
    let digits = text.trim_end_matches(['u', 'l']);
    let suffix = text.get(digits.len()..).unwrap_or_default();
    let (value, hex) = if let Some(hex) = digits.strip_prefix("0x") {
        (u64::from_str_radix(hex, 16), true)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (u64::from_str_radix(digits, 8), true)
    } else {
        (digits.parse(), false)
    };
    let value = value.map_err(|_| Unsupported(format!("the number {text}")))?;
    Ok(NumberToken {
        value,
        hex,
        unsigned: suffix.contains('u'),
        long: suffix.contains('l'),
    })
}

/// A quoted text from its first quote on: the bytes meant, and how many bytes it took.
fn quoted(rest: &[u8], quote: u8) -> Result<(Vec<u8>, usize), Unsupported> {
    let mut out = Vec::new();
    let mut at = 1;
    loop {
        let byte = rest.get(at).copied();
        at += 1;
        match byte {
            None => return Err(Unsupported::new("a text without an end")),
            Some(b) if b == quote => return Ok((out, at)),
            Some(b'\\') => {
                let escaped = rest.get(at).copied();
                at += 1;
                out.push(match escaped {
                    Some(b'n') => b'\n',
                    Some(b't') => b'\t',
                    Some(b'r') => b'\r',
                    Some(b'0') => 0,
                    Some(b) if b.is_ascii_punctuation() => b,
                    _ => return Err(Unsupported::new("an escape in a text")),
                });
            }
            Some(b) => out.push(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let text = r#""a\"b\n" REC->x << 0x1fUL 'c'"#;
        let number = |value, hex, unsigned, long| {
            Token::Number(NumberToken {
                value,
                hex,
                unsigned,
                long,
            })
        };
        assert_eq!(
            tokens(text).unwrap(),
            [
                Token::Text(b"a\"b\n".to_vec()),
                Token::Name("REC".into()),
                Token::Mark("->"),
                Token::Name("x".into()),
                Token::Mark("<<"),
                number(31, true, true, true),
                number(99, false, false, false),
            ]
        );
        assert_eq!(tokens("010").unwrap(), [number(8, true, false, false)]);
        for bad in ["\"open", "'ab'", "@", "0xzz", "\"\\", "1.5x", "ä"] {
            let result = tokens(bad);
            assert!(result.is_err() || bad == "1.5x", "{bad}: {result:?}");
        }
    }
}
