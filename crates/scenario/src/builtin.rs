//! Studies that are part of the program.

/// Name and text of each built-in study.
pub(crate) const STUDIES: [(&str, &str); 1] = [(
    "wakeup-preempt",
    include_str!("../../../studies/wakeup-preempt.toml"),
)];

/// The text of a built-in study.
pub(crate) fn study(name: &str) -> Option<&'static str> {
    STUDIES
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, text)| *text)
}
