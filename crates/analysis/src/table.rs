//! Tables of an analysis: one description, printed as text, CSV or JSON.

use std::fmt::Write;

use serde_json::{Map, Value};

/// What a cell holds; the printed form decides about units.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A number without unit.
    Count(u64),
    /// A length of time in ns; text shows ms.
    Length(u64),
    /// A length of time in ns; text shows us.
    Micros(u64),
    /// A point of time in ns on the trace's clock; text shows s.
    Time(u64),
    /// A part of a whole; text shows percent, CSV and JSON the quotient.
    Share(u64, u64),
    /// A quotient; shown with three digits.
    Ratio(u128, u128),
    /// Nothing to say.
    None,
}

/// A column: its key in CSV and JSON, and its title in text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Name in CSV and JSON; times end in `_ns`.
    pub key: &'static str,
    /// Title in text.
    pub title: &'static str,
    /// Unit in text, below the title; empty if there is none.
    pub unit: &'static str,
}

/// Short for a [`Column`].
#[must_use]
pub const fn column(key: &'static str, title: &'static str, unit: &'static str) -> Column {
    Column { key, title, unit }
}

/// Rows under columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Name in JSON, and heading in text if there are several tables.
    pub name: &'static str,
    /// Columns.
    pub columns: &'static [Column],
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// What an analysis has to say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Tables, the main one first.
    pub tables: Vec<Table>,
    /// Remarks, each a line.
    pub notes: Vec<String>,
}

impl Report {
    /// Text for people. Ends with a line feed.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (i, table) in self.tables.iter().enumerate() {
            if i > 0 {
                out.push('\n');
            }
            table.text(&mut out);
        }
        for note in &self.notes {
            let _ = writeln!(out, "  {note}");
        }
        out
    }

    /// The main table as CSV with a line of keys, times in ns.
    ///
    /// # Errors
    /// None in practice; the writer's signature has one.
    pub fn csv(&self) -> Result<String, csv::Error> {
        let mut out = csv::Writer::from_writer(Vec::new());
        if let Some(table) = self.tables.first() {
            out.write_record(table.columns.iter().map(|c| c.key))?;
            for row in &table.rows {
                out.write_record(row.iter().map(Cell::plain))?;
            }
        }
        let bytes = out.into_inner().map_err(|e| e.into_error())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// An object with one array of rows a table and the notes; times in ns.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut out = Map::new();
        for table in &self.tables {
            let rows = table.rows.iter().map(|row| table.json_row(row)).collect();
            out.insert(table.name.to_owned(), Value::Array(rows));
        }
        out.insert("notes".to_owned(), self.notes.clone().into());
        Value::Object(out)
    }
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(name: &'static str, columns: &'static [Column]) -> Self {
        Self {
            name,
            columns,
            rows: Vec::new(),
        }
    }

    fn json_row(&self, row: &[Cell]) -> Value {
        let cells = self.columns.iter().zip(row);
        Value::Object(
            cells
                .map(|(column, cell)| (column.key.to_owned(), cell.json()))
                .collect(),
        )
    }

    /// Columns as wide as their widest cell; texts to the left, numbers to the right.
    fn text(&self, out: &mut String) {
        let cells: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::shown).collect())
            .collect();
        let width = |i: usize| {
            let column = &self.columns[i];
            let cell = cells.iter().map(|row| row[i].chars().count()).max();
            cell.unwrap_or(0)
                .max(column.title.chars().count())
                .max(column.unit.chars().count())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let left: Vec<bool> = (0..self.columns.len())
            .map(|i| self.rows.iter().any(|row| matches!(row[i], Cell::Text(_))))
            .collect();
        let mut line = |texts: &[&str]| {
            let mut text = String::from(" ");
            for ((cell, &width), &left) in texts.iter().zip(&widths).zip(&left) {
                let _ = if left {
                    write!(text, " {cell:<width$} ")
                } else {
                    write!(text, " {cell:>width$} ")
                };
            }
            let _ = writeln!(out, "{}", text.trim_end());
        };
        line(&self.columns.iter().map(|c| c.title).collect::<Vec<_>>());
        if self.columns.iter().any(|c| !c.unit.is_empty()) {
            line(&self.columns.iter().map(|c| c.unit).collect::<Vec<_>>());
        }
        let rules: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
        line(&rules.iter().map(String::as_str).collect::<Vec<_>>());
        for row in &cells {
            line(&row.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
}

impl Cell {
    /// A time that may be missing.
    #[must_use]
    pub fn time(ns: Option<u64>) -> Self {
        ns.map_or(Self::None, Self::Time)
    }

    fn shown(&self) -> String {
        match *self {
            Self::Text(ref text) => text.clone(),
            Self::Count(n) => n.to_string(),
            Self::Length(ns) => ms(ns),
            Self::Micros(ns) => quotient(u128::from(ns), 1000, 1000, 3),
            Self::Time(ns) => seconds(ns),
            Self::Share(part, whole) if whole > 0 => {
                // Tenths of a percent, rounded.
                let permille =
                    (u128::from(part) * 2000 + u128::from(whole)) / (u128::from(whole) * 2);
                format!("{}.{}", permille / 10, permille % 10)
            }
            Self::Ratio(part, whole) if whole > 0 => quotient(part, whole, 1000, 3),
            Self::Share(..) | Self::Ratio(..) | Self::None => "-".to_owned(),
        }
    }

    fn plain(&self) -> String {
        match *self {
            Self::Text(ref text) => text.clone(),
            Self::Count(n) | Self::Length(n) | Self::Micros(n) | Self::Time(n) => n.to_string(),
            Self::Share(part, whole) if whole > 0 => {
                quotient(u128::from(part), u128::from(whole), 1_000_000, 6)
            }
            Self::Ratio(part, whole) if whole > 0 => quotient(part, whole, 1_000_000, 6),
            Self::Share(..) | Self::Ratio(..) | Self::None => String::new(),
        }
    }

    fn json(&self) -> Value {
        match *self {
            Self::Text(ref text) => text.clone().into(),
            Self::Count(n) | Self::Length(n) | Self::Micros(n) | Self::Time(n) => n.into(),
            Self::Share(..) | Self::Ratio(..) => {
                self.plain().parse::<f64>().map_or(Value::Null, Value::from)
            }
            Self::None => Value::Null,
        }
    }
}

/// `part / whole` with as many digits as `scale` has zeros, rounded down.
fn quotient(part: u128, whole: u128, scale: u128, digits: usize) -> String {
    let scaled = part.saturating_mul(scale) / whole;
    format!("{}.{:0digits$}", scaled / scale, scaled % scale)
}

/// Milliseconds with three decimals, rounded.
pub(crate) fn ms(ns: u64) -> String {
    let micros = ns / 1000 + u64::from(ns % 1000 >= 500);
    format!("{}.{:03}", micros / 1000, micros % 1000)
}

/// Seconds with six decimals, rounded.
pub(crate) fn seconds(ns: u64) -> String {
    let micros = ns / 1000 + u64::from(ns % 1000 >= 500);
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_forms_of_one_table() {
        const COLUMNS: &[Column] = &[
            column("task", "Task", ""),
            column("delay_ns", "Delay", "ms"),
            column("share", "Share", "%"),
            column("at_ns", "At", "s"),
        ];
        let mut table = Table::new("waits", COLUMNS);
        table.rows.push(vec![
            Cell::Text("a, \"b\"".to_owned()),
            Cell::Length(1_234_567),
            Cell::Share(1, 3),
            Cell::Time(2_000_000_499),
        ]);
        table.rows.push(vec![
            Cell::Text("c".to_owned()),
            Cell::Length(u64::MAX),
            Cell::Share(0, 0),
            Cell::None,
        ]);
        let report = Report {
            tables: vec![table],
            notes: vec!["a note".to_owned()],
        };
        insta::assert_snapshot!(report.text(), @r#"
          Task                 Delay  Share        At
                                  ms      %         s
          ------  ------------------  -----  --------
          a, "b"               1.235   33.3  2.000000
          c       18446744073709.552      -         -
          a note
        "#);
        insta::assert_snapshot!(report.csv().unwrap(), @r#"
        task,delay_ns,share,at_ns
        "a, ""b""",1234567,0.333333,2000000499
        c,18446744073709551615,,
        "#);
        assert_eq!(
            report.json().to_string(),
            r#"{"notes":["a note"],"waits":[{"at_ns":2000000499,"delay_ns":1234567,"share":0.333333,"task":"a, \"b\""},{"at_ns":null,"delay_ns":18446744073709551615,"share":null,"task":"c"}]}"#
        );
    }
}
