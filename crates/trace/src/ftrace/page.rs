//! The HTML page that systrace puts around its trace text.
//!
//! The page holds a viewer, then the text: between `<!-- BEGIN TRACE -->` and `<!-- END TRACE -->` in one or more
//! `<script class="trace-data">`, or (2012 to 2013) as a string of a script whose lines end in `\n\`.

/// Where in a page a reader stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Page {
    /// No line was seen yet.
    #[default]
    Unknown,
    /// The file is plain text.
    Plain,
    /// In the page, around the trace text.
    Around,
    /// In the trace text of a page.
    Trace,
}

/// What a line is with regard to the page.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum PageLine<'a> {
    /// Part of the page.
    Page,
    /// A line of trace text, without what the page adds.
    Text(&'a [u8]),
}

impl Page {
    /// Whether the file is a page.
    pub(super) fn is_html(self) -> bool {
        matches!(self, Self::Around | Self::Trace)
    }

    /// Looks at the next line.
    pub(super) fn take<'a>(&mut self, line: &'a [u8]) -> PageLine<'a> {
        if *self == Self::Unknown {
            *self = match begins_page(line) {
                true => Self::Around,
                // The doctype may come behind blank lines.
                false if line.trim_ascii().is_empty() => Self::Unknown,
                false => Self::Plain,
            };
        }
        match self {
            Self::Unknown | Self::Plain => PageLine::Text(line),
            Self::Around => {
                let has = |what: &[u8]| memchr::memmem::find(line, what).is_some();
                if has(b"class=\"trace-data\"") || has(b"linuxPerfData = \"\\") {
                    *self = Self::Trace;
                }
                PageLine::Page
            }
            Self::Trace => {
                let text = line.trim_ascii_start();
                if text.starts_with(b"</script>") || text.starts_with(b"<!-- END TRACE -->") {
                    *self = Self::Around;
                    return PageLine::Page;
                }
                PageLine::Text(line.strip_suffix(b"\\n\\").unwrap_or(line))
            }
        }
    }
}

/// Whether text begins as an HTML page does.
pub(crate) fn begins_page(text: &[u8]) -> bool {
    let lower: Vec<u8> = text
        .trim_ascii_start()
        .iter()
        .take(16)
        .map(u8::to_ascii_lowercase)
        .collect();
    lower.starts_with(b"<!doctype html") || lower.starts_with(b"<html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn around_and_within() {
        let mut page = Page::default();
        let mut text = Vec::new();
        for line in [
            "",
            "<!DOCTYPE html>",
            "# no comment, but a style",
            "<!-- BEGIN TRACE -->",
            "  <script class=\"trace-data\" type=\"application/text\">",
            "# tracer: nop",
            "a\\n\\",
            "  </script>",
            "b",
            "<script class=\"trace-data\" type=\"application/text\">",
            "c",
            "<!-- END TRACE -->",
            "d",
        ] {
            if let PageLine::Text(line) = page.take(line.as_bytes()) {
                text.push(String::from_utf8_lossy(line).into_owned());
            }
        }
        assert_eq!(text, ["", "# tracer: nop", "a", "c"]);
        assert!(page.is_html());
        let mut plain = Page::default();
        assert_eq!(
            plain.take(b"# tracer: nop"),
            PageLine::Text(b"# tracer: nop")
        );
        assert_eq!(plain.take(b"<html>"), PageLine::Text(b"<html>"));
    }
}
