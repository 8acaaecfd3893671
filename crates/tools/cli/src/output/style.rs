//! Colours, where somebody sees them.

use std::env;
use std::io::IsTerminal;

/// Whether text for a stream may be coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    coloured: bool,
}

impl Style {
    /// Colours are for terminals, and not where `NO_COLOR` or a terminal that knows none says
    /// otherwise (no-color.org).
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        Self {
            coloured: stream.is_terminal() && !refused && !dumb,
        }
    }

    /// Never any colour.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { coloured: false };

    /// Text in a colour, by its number in ECMA-48's "select graphic rendition".
    pub(crate) fn colour(self, number: u8, text: &str) -> String {
        if self.coloured && number > 0 {
            format!("\x1b[{number}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Text that matters less.
    pub(crate) fn dim(self, text: &str) -> String {
        self.colour(2, text)
    }
}

/// How wide the terminal on the standard output is; `None` if it is none.
pub(crate) fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    orlop_streaming::terminal::size(stdout)
        .map(|size| usize::from(size.width))
        .filter(|width| *width > 0)
}

/// Text cut to a number of characters, the cut marked.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_characters_and_plain_text_stays_plain() {
        assert_eq!(cut("größer", 4), "grö…");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(Style::PLAIN.colour(31, "x"), "x");
        assert_eq!(Style { coloured: true }.dim("x"), "\x1b[2mx\x1b[0m");
    }
}
