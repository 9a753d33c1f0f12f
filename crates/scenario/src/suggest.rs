//! "Did you mean": the closest of the known names.

/// The known name closest to `name`, if it is close enough to be a slip of the hand.
pub(crate) fn closest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    // Of very short names every other one is a single slip away.
    let limit = name.chars().count() / 3;
    known
        .iter()
        .map(|k| (distance(name, k, limit), k))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k.as_str())
}

/// Edit distance without regard to case; anything above `limit` is reported as `limit + 1`.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    let a: Vec<char> = a.chars().flat_map(char::to_lowercase).collect();
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    if a.len().abs_diff(b.len()) > limit {
        return limit + 1;
    }
    // Rows of the matrix before last, last and now: two swapped letters count as one slip.
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1; b.len() + 1];
        for j in 0..b.len() {
            let changed = last[j] + usize::from(a[i] != b[j]);
            row[j + 1] = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()].min(limit + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_mended_and_a_stranger_is_not() {
        let known = ["profile", "features", "base_slice"].map(String::from);
        assert_eq!(closest("profil", &known), Some("profile"));
        assert_eq!(closest("Features", &known), Some("features"));
        assert_eq!(closest("bas_slcie", &known), Some("base_slice"));
        assert_eq!(closest("hgo", &["hog".to_string()]), Some("hog"));
        assert_eq!(closest("nice", &known), None);
        assert_eq!(closest("w", &["p".to_string()]), None);
    }
}
