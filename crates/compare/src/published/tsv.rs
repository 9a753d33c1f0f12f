//! Rows of named cells.

use super::PublishedError;

/// A table whose first line names the columns.
pub(super) struct Tsv<'a> {
    columns: Vec<&'a str>,
    rows: Vec<TsvRow<'a>>,
}

struct TsvRow<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

/// One row, cells by column name.
#[derive(Clone, Copy)]
pub(super) struct Cells<'a, 't> {
    table: &'t Tsv<'a>,
    row: &'t TsvRow<'a>,
}

impl<'a> Tsv<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, PublishedError> {
        let mut lines = text.lines().enumerate();
        let (_, first) = lines
            .next()
            .filter(|(_, line)| !line.is_empty())
            .ok_or(PublishedError::Empty)?;
        let columns: Vec<&str> = first.split('\t').collect();
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].contains(column) {
                return Err(PublishedError::ColumnTwice {
                    column: (*column).to_owned(),
                });
            }
        }
        let mut rows = Vec::new();
        for (at, text) in lines {
            let (line, cells) = (at + 1, text.split('\t').collect::<Vec<_>>());
            if cells.len() != columns.len() {
                return Err(PublishedError::Width {
                    line,
                    found: cells.len(),
                    expected: columns.len(),
                });
            }
            rows.push(TsvRow { line, cells });
        }
        Ok(Self { columns, rows })
    }

    pub(super) fn columns(&self) -> &[&'a str] {
        &self.columns
    }

    /// Fails when a column is not there.
    pub(super) fn require(&self, columns: &[&str]) -> Result<(), PublishedError> {
        match columns.iter().find(|column| !self.columns.contains(column)) {
            None => Ok(()),
            Some(column) => Err(PublishedError::NoColumn {
                column: (*column).to_owned(),
                found: self
                    .columns
                    .iter()
                    .map(|column| (*column).to_owned())
                    .collect(),
            }),
        }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Cells<'a, '_>> {
        self.rows.iter().map(|row| Cells { table: self, row })
    }
}

impl<'a> Cells<'a, '_> {
    /// Line in the file, from 1.
    pub(super) fn line(&self) -> usize {
        self.row.line
    }

    /// The text of a column, empty when there is no such column.
    pub(super) fn text(&self, column: &str) -> &'a str {
        let at = self.table.columns.iter().position(|name| *name == column);
        at.and_then(|at| self.row.cells.get(at).copied())
            .unwrap_or("")
    }

    /// A text that must be there.
    pub(super) fn word(&self, column: &str) -> Result<String, PublishedError> {
        match self.text(column) {
            "" => Err(self.bad(column, "some text")),
            text => Ok(text.to_owned()),
        }
    }

    /// The column's cell is not what it should be.
    pub(super) fn bad(&self, column: &str, expected: &'static str) -> PublishedError {
        let text = self.text(column).to_owned();
        PublishedError::Cell {
            line: self.line(),
            column: column.to_owned(),
            text,
            expected,
        }
    }
}
