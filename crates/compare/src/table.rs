//! Plain aligned text: blanks only, and narrow enough for a mail.

/// Widest line a table makes, in characters.
pub const MAX_WIDTH: usize = 100;

/// Which side of its column a cell keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table of text cells under heads, two blanks between columns.
///
/// Lines are at most [`MAX_WIDTH`] characters: where the cells need more, the
/// widest left-aligned column is narrowed and its cells are cut in the middle
/// and marked `..` there; numbers are never cut. Tabs and control characters in
/// a cell become blanks. No line ends in a blank.
#[derive(Debug, Clone)]
pub struct TextTable {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

/// Narrowest that a left-aligned column is made.
const MIN_TEXT: usize = 8;
const GAP: &str = "  ";

impl TextTable {
    /// A table with these columns.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let heads = columns.iter().map(|(head, _)| clean(head)).collect();
        Self {
            aligns: columns.iter().map(|(_, align)| *align).collect(),
            rows: vec![heads],
        }
    }

    /// Adds a row. Cells that are missing are empty; those beyond the last
    /// column are dropped.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells
            .into_iter()
            .take(self.aligns.len())
            .map(|cell| clean(cell.as_ref()))
            .collect();
        row.resize(self.aligns.len(), String::new());
        self.rows.push(row);
    }

    /// How many rows there are under the heads.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len() - 1
    }

    /// Whether there is no row under the heads.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The table as text, each line ended.
    #[must_use]
    pub fn render(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if at > 0 {
                    line.push_str(GAP);
                }
                match self.aligns[at] {
                    Align::Left => line.push_str(&format!("{:<width$}", shorten(cell, *width))),
                    Align::Right => line.push_str(&format!("{cell:>width$}")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = (0..self.aligns.len())
            .map(|at| {
                self.rows
                    .iter()
                    .map(|row| row[at].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        loop {
            let over = (widths.iter().sum::<usize>() + gaps).saturating_sub(MAX_WIDTH);
            // The widest text column gives way first.
            let Some(widest) = (0..widths.len())
                .filter(|at| self.aligns[*at] == Align::Left && widths[*at] > MIN_TEXT)
                .max_by_key(|at| widths[*at])
            else {
                return widths;
            };
            if over == 0 {
                return widths;
            }
            let room = widths[widest] - MIN_TEXT;
            widths[widest] -= over.min(room);
        }
    }
}

fn clean(cell: &str) -> String {
    cell.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}

/// Cuts the middle out of a text that is longer than `width` characters.
fn shorten(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let keep = width.saturating_sub(2);
    let front = keep - keep / 2;
    let mut short: String = text.chars().take(front).collect();
    short.push_str("..");
    short.extend(text.chars().skip(count - keep / 2));
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_nothing_trails() {
        let mut table = TextTable::new(&[
            ("task", Align::Left),
            ("runtime ms", Align::Right),
            ("why", Align::Left),
        ]);
        table.row(["hackbench", "12.500", "eligible"]);
        table.row(["X", "3.000", ""]);
        table.row(["tab\tin a name", "1000.250"]);
        insta::assert_snapshot!(table.render(), @r"
        task           runtime ms  why
        hackbench          12.500  eligible
        X                   3.000
        tab in a name    1000.250
        ");
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn long_text_gives_way_and_numbers_do_not() {
        let mut table = TextTable::new(&[
            ("key", Align::Left),
            ("n", Align::Right),
            ("note", Align::Left),
        ]);
        let key = format!("perf-sched.wait_time.{}.end", "x".repeat(120));
        table.row([key.as_str(), "123456789.25", "a short note"]);
        let text = table.render();
        assert!(
            text.lines().all(|line| line.chars().count() <= MAX_WIDTH),
            "{text}"
        );
        assert!(
            text.contains("perf-sched.wait_time.") && text.contains(".end"),
            "{text}"
        );
        assert!(
            text.contains("..") && text.contains("123456789.25") && text.contains("a short note"),
            "{text}"
        );
    }

    #[test]
    fn cells_too_many_or_too_few_do_no_harm() {
        let mut table = TextTable::new(&[("a", Align::Left)]);
        table.row(["1", "2", "3"]);
        table.row(Vec::<String>::new());
        assert_eq!(table.render(), "a\n1\n\n");
        assert_eq!(TextTable::new(&[]).render(), "\n");
    }
}
