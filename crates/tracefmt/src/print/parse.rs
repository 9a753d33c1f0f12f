//! From the words of `print fmt:` to expressions.

use super::Unsupported;
use super::number::{BinaryOp, Num};
use super::token::Token;
use super::types::{Type, c_type, is_type, literal};
use crate::EventFormat;

/// How deep expressions may nest.
const DEPTH_MAX: u32 = 64;
/// How many operators between parts that are not constant; bounds the depth of the tree together with [`DEPTH_MAX`].
const OPERATORS_MAX: u32 = 256;

/// An expression. Fields are given by their place in the format: `EventFormat::field` order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Expr {
    Num(Num),
    Text(Vec<u8>),
    /// `REC->name`, or the address of an array.
    Field(usize),
    /// `__get_str(name)` and `__get_dynamic_array(name)`.
    Dynamic(usize),
    /// `__get_dynamic_array_len(name)`.
    DynamicLen(usize),
    Index(Box<Expr>, Box<Expr>),
    Cast(Type, Box<Expr>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Complement(Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    AndAlso(Box<Expr>, Box<Expr>),
    OrElse(Box<Expr>, Box<Expr>),
    Cond(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `__print_flags(value, delimiter, {mask, name}...)`.
    Flags(Box<Expr>, Vec<u8>, Vec<(u64, Vec<u8>)>),
    /// `__print_symbolic(value, {value, name}...)`. The flag says 64 bits.
    Symbolic(Box<Expr>, Vec<(u64, Vec<u8>)>),
    /// `__print_hex(data, length)`, with a separator or without.
    Hex(Box<Expr>, Box<Expr>, bool),
    /// `__print_array(data, count, element size)`.
    Array(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `__get_bitmask(name)`, `__get_cpumask(name)`.
    Bitmask(usize),
}

/// The format string and its arguments.
pub(super) struct Parsed {
    pub(super) format: Vec<u8>,
    pub(super) args: Vec<Expr>,
}

/// Parses all words of a `print fmt:` line.
pub(super) fn parse(tokens: &[Token], event: &EventFormat) -> Result<Parsed, Unsupported> {
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        operators: 0,
        event,
    };
    let format = parser.text().ok_or(Unsupported::new("no format string"))?;
    let mut args = Vec::new();
    while parser.take(",") {
        args.push(parser.expr()?);
    }
    match parser.peek() {
        None => Ok(Parsed { format, args }),
        Some(token) => Err(unexpected(token)),
    }
}

fn unexpected(token: &Token) -> Unsupported {
    Unsupported(match token {
        Token::Name(name) => format!("the name {name} where it stands"),
        Token::Number(number) => format!("the number {} where it stands", number.value),
        Token::Text(_) => "a text where it stands".to_owned(),
        Token::Mark(mark) => format!("\"{mark}\" where it stands"),
    })
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: u32,
    operators: u32,
    event: &'a EventFormat,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn peek_mark(&self, mark: &str) -> bool {
        matches!(self.peek(), Some(Token::Mark(m)) if *m == mark)
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = self.peek_mark(mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &'static str) -> Result<(), Unsupported> {
        if self.take(mark) {
            return Ok(());
        }
        Err(match self.peek() {
            Some(token) => unexpected(token),
            None => Unsupported(format!("the end where \"{mark}\" is missing")),
        })
    }

    fn name(&mut self) -> Option<String> {
        let Some(Token::Name(name)) = self.peek() else {
            return None;
        };
        let name = name.clone();
        self.at += 1;
        Some(name)
    }

    /// One or more texts side by side are one.
    fn text(&mut self) -> Option<Vec<u8>> {
        let mut out: Option<Vec<u8>> = None;
        while let Some(Token::Text(text)) = self.tokens.get(self.at) {
            out.get_or_insert_default().extend_from_slice(text);
            self.at += 1;
        }
        out
    }

    fn field(&mut self) -> Result<usize, Unsupported> {
        let name = self
            .name()
            .ok_or(Unsupported::new("a field that is no name"))?;
        super::field_index(self.event, &name)
            .ok_or_else(|| Unsupported(format!("the field {name}, which is not described")))
    }

    fn expr(&mut self) -> Result<Expr, Unsupported> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Unsupported::new("brackets nested too deeply"));
        }
        let condition = self.binary(0)?;
        let out = if self.take("?") {
            // `a ?: b`: the condition is the value.
            let yes = if self.peek_mark(":") {
                condition.clone()
            } else {
                self.expr()?
            };
            self.expect(":")?;
            let no = self.expr()?;
            Expr::Cond(Box::new(condition), Box::new(yes), Box::new(no))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(out)
    }

    /// Operators of at least this rank.
    fn binary(&mut self, rank: usize) -> Result<Expr, Unsupported> {
        let Some(operators) = RANKS.get(rank) else {
            return self.unary();
        };
        let mut left = self.binary(rank + 1)?;
        loop {
            let Some(&mark) = operators.iter().find(|mark| self.peek_mark(mark)) else {
                return Ok(left);
            };
            self.at += 1;
            let right = self.binary(rank + 1)?;
            if let (Expr::Num(a), Expr::Num(b)) = (&left, &right)
                && !matches!(mark, "||" | "&&")
                && let Some(value) = a.binary(operator(mark), *b)
            {
                left = Expr::Num(value);
                continue;
            }
            self.operators += 1;
            if self.operators > OPERATORS_MAX {
                return Err(Unsupported::new("too many operators"));
            }
            let right = Box::new(right);
            let boxed = Box::new(left);
            left = match mark {
                "||" => Expr::OrElse(boxed, right),
                "&&" => Expr::AndAlso(boxed, right),
                _ => Expr::Binary(operator(mark), boxed, right),
            };
        }
    }

    fn unary(&mut self) -> Result<Expr, Unsupported> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Unsupported::new("brackets nested too deeply"));
        }
        let out = if self.take("!") {
            Expr::Not(Box::new(self.unary()?))
        } else if self.take("~") {
            Expr::Complement(Box::new(self.unary()?))
        } else if self.take("-") {
            Expr::Negate(Box::new(self.unary()?))
        } else if self.take("+") {
            self.unary()?
        } else if self.take("*") {
            Expr::Index(Box::new(self.unary()?), Box::new(Expr::Num(Num::int(0))))
        } else if self.take("&") {
            // Only arrays are worth their address; evaluation refuses others.
            self.unary()?
        } else if let Some(cast) = self.cast()? {
            Expr::Cast(cast, Box::new(self.unary()?))
        } else {
            self.postfix()?
        };
        self.depth -= 1;
        Ok(out)
    }

    /// `(type)`, if that is what stands here.
    fn cast(&mut self) -> Result<Option<Type>, Unsupported> {
        let start = self.at;
        if !self.take("(") {
            return Ok(None);
        }
        if let Some(found) = self.type_name()
            && self.take(")")
        {
            return match found {
                Some(found) => Ok(Some(found)),
                None => Err(Unsupported::new("a cast to a type of unknown size")),
            };
        }
        self.at = start;
        Ok(None)
    }

    /// Words of a type: `None` if it is no type, `Some(None)` if its size is unknown.
    fn type_name(&mut self) -> Option<Option<Type>> {
        let mut words: Vec<String> = Vec::new();
        while let Some(name) = self.name() {
            if matches!(name.as_str(), "REC" | "__entry") {
                return None;
            }
            words.push(name);
        }
        if words.is_empty() {
            return None;
        }
        let mut pointer = false;
        while self.take("*") {
            pointer = true;
        }
        if !self.peek_mark(")") {
            return None;
        }
        let found = c_type(&words, self.event.long_size());
        if found.is_none() && !pointer && words.len() == 1 && !words.iter().all(|w| is_type(w)) {
            // `(SOME_CONSTANT)`: not a type.
            return None;
        }
        Some(match (found, pointer) {
            (Some(found), _) => Some(Type { pointer, ..found }),
            (None, true) => Some(Type {
                bytes: 1,
                unsigned: true,
                pointer,
            }),
            (None, false) => None,
        })
    }

    fn postfix(&mut self) -> Result<Expr, Unsupported> {
        let mut out = self.primary()?;
        loop {
            if self.take("[") {
                let index = self.expr()?;
                self.expect("]")?;
                out = Expr::Index(Box::new(out), Box::new(index));
            } else if let Some(token @ Token::Mark("." | "->")) = self.peek() {
                return Err(unexpected(token));
            } else {
                return Ok(out);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, Unsupported> {
        if let Some(text) = self.text() {
            return Ok(Expr::Text(text));
        }
        if self.peek_mark("(") {
            self.at += 1;
            if self.peek_mark("{") {
                return Err(Unsupported::new("a statement in brackets"));
            }
            // `(REC)->x`.
            if let Some(Token::Name(name)) = self.peek()
                && (name == "REC" || name == "__entry")
                && matches!(self.tokens.get(self.at + 1), Some(Token::Mark(")")))
            {
                self.at += 2;
                self.expect("->")?;
                return self.field().map(Expr::Field);
            }
            let inner = self.expr()?;
            self.expect(")")?;
            return Ok(inner);
        }
        match self.peek() {
            Some(&Token::Number(number)) => {
                self.at += 1;
                Ok(Expr::Num(literal(number, self.event.long_size())))
            }
            Some(Token::Name(_)) => {
                let name = self.name().unwrap_or_default();
                self.named(&name)
            }
            Some(token) => Err(unexpected(token)),
            None => Err(Unsupported::new("an end too early")),
        }
    }

    fn named(&mut self, name: &str) -> Result<Expr, Unsupported> {
        match name {
            "REC" | "__entry" => {
                self.expect("->")?;
                return self.field().map(Expr::Field);
            }
            "true" => return Ok(Expr::Num(Num::int(1))),
            "false" | "NULL" => return Ok(Expr::Num(Num::int(0))),
            _ => {}
        }
        if !self.take("(") {
            return Err(Unsupported(format!("the name {name}")));
        }
        let out = match name {
            "__get_str" | "__get_rel_str" | "__get_dynamic_array" | "__get_rel_dynamic_array" => {
                Expr::Dynamic(self.field()?)
            }
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => {
                Expr::DynamicLen(self.field()?)
            }
            "__get_bitmask" | "__get_cpumask" | "__get_rel_bitmask" | "__get_rel_cpumask" => {
                Expr::Bitmask(self.field()?)
            }
            "__print_flags" | "__print_flags_u64" => {
                let value = Box::new(self.expr()?);
                self.expect(",")?;
                let delimiter = self
                    .text()
                    .ok_or(Unsupported::new("flags without a delimiter"))?;
                Expr::Flags(value, delimiter, self.table()?)
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                let value = Box::new(self.expr()?);
                Expr::Symbolic(value, self.table()?)
            }
            "__print_hex" | "__print_hex_str" => {
                let data = Box::new(self.expr()?);
                self.expect(",")?;
                Expr::Hex(data, Box::new(self.expr()?), name == "__print_hex")
            }
            "__print_array" => {
                let data = Box::new(self.expr()?);
                self.expect(",")?;
                let count = Box::new(self.expr()?);
                self.expect(",")?;
                Expr::Array(data, count, Box::new(self.expr()?))
            }
            "sizeof" => self.size_of()?,
            "__builtin_expect" => {
                let value = self.expr()?;
                self.expect(",")?;
                self.expr()?;
                value
            }
            _ => return Err(Unsupported(format!("the function {name}"))),
        };
        self.expect(")")?;
        Ok(out)
    }

    fn size_of(&mut self) -> Result<Expr, Unsupported> {
        let start = self.at;
        let long = u32::from(self.event.long_size());
        let bytes = match self.type_name() {
            Some(Some(found)) if found.pointer => long,
            Some(Some(found)) => found.bytes,
            Some(None) => return Err(Unsupported::new("the size of a type")),
            None => {
                self.at = start;
                match self.expr()? {
                    Expr::Field(index) => {
                        super::field_at(self.event, index).map_or(0, crate::Field::size)
                    }
                    _ => return Err(Unsupported::new("the size of an expression")),
                }
            }
        };
        Ok(Expr::Num(Num::of_type(u64::from(bytes), long, true)))
    }

    /// `, { value, "name" }, ...` up to the closing bracket, which stays.
    fn table(&mut self) -> Result<Vec<(u64, Vec<u8>)>, Unsupported> {
        let mut out = Vec::new();
        while self.take(",") {
            self.expect("{")?;
            if self.take("}") {
                continue;
            }
            let value = self.expr()?;
            self.expect(",")?;
            let name = self.expr()?;
            self.expect("}")?;
            match (super::eval::constant(&value), name) {
                (Some(value), Expr::Text(name)) => out.push((value, name)),
                // `{ -1, NULL }` ends some tables.
                (Some(_), end) if super::eval::constant(&end) == Some(0) => return Ok(out),
                _ => return Err(Unsupported::new("a table entry that is not constant")),
            }
        }
        Ok(out)
    }
}

/// Operators by rank, loosest first.
const RANKS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

fn operator(mark: &str) -> BinaryOp {
    match mark {
        "|" => BinaryOp::Or,
        "^" => BinaryOp::Xor,
        "&" => BinaryOp::And,
        "==" => BinaryOp::Equal,
        "!=" => BinaryOp::NotEqual,
        "<" => BinaryOp::Less,
        "<=" => BinaryOp::LessEq,
        ">" => BinaryOp::Greater,
        ">=" => BinaryOp::GreaterEq,
        "<<" => BinaryOp::Shl,
        ">>" => BinaryOp::Shr,
        "+" => BinaryOp::Add,
        "-" => BinaryOp::Sub,
        "*" => BinaryOp::Mul,
        "/" => BinaryOp::Div,
        _ => BinaryOp::Rem,
    }
}
