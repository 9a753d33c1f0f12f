//! The order of rows: failures first, then programs by how few rows they have,
//! then keys.
//!
//! `sort_stats` of lkp-tests `lib/compare.rb`, as its reports show it: the robot
//! does not put the test program first, though the public code would. Within
//! `perf-profile` rows are by the first two parts of the key and then by change.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{Cells, Row};

/// The ranks of the programs in a set of rows.
pub(super) struct Order {
    /// Rows without and with failures, by program: `(no failures, rows)`.
    ranks: BTreeMap<String, (bool, usize)>,
}

impl Order {
    pub(super) fn of(rows: &[Row]) -> Self {
        let mut ranks: BTreeMap<String, (bool, usize)> = BTreeMap::new();
        for row in rows {
            let rank = ranks
                .entry(program(&row.key).to_owned())
                .or_insert((true, 0));
            rank.0 &= matches!(row.cells, Cells::Values(_));
            rank.1 += 1;
        }
        Self { ranks }
    }

    pub(super) fn sort(&self, rows: &mut [Row]) {
        rows.sort_by(|a, b| self.compare(a, b));
    }

    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        let is_value = |row: &Row| matches!(row.cells, Cells::Values(_));
        let rank = |row: &Row| self.ranks.get(program(&row.key));
        // Failures have their own head, so they are apart even where one program has both.
        is_value(a)
            .cmp(&is_value(b))
            .then_with(|| rank(a).cmp(&rank(b)))
            .then_with(|| sort_key(&a.key).cmp(sort_key(&b.key)))
            .then_with(|| changes(a, b))
            .then_with(|| a.key.cmp(&b.key))
    }
}

fn program(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

/// The part of the key that orders it: all of it, except for `perf-profile`.
fn sort_key(key: &str) -> &str {
    if program(key) != "perf-profile" {
        return key;
    }
    let second_dot = key.match_indices('.').nth(1);
    second_dot.map_or(key, |(at, _)| &key[..at])
}

fn changes(a: &Row, b: &Row) -> Ordering {
    let differing = a
        .changes
        .iter()
        .zip(&b.changes)
        .map(|(a, b)| a.total_cmp(b))
        .find(|order| order.is_ne());
    differing.unwrap_or(Ordering::Equal)
}
