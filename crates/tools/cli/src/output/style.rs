//! Colours on terminals.

use std::env;
use std::io::IsTerminal;

/// Whether text for a stream may be coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    coloured: bool,
}

impl Style {
    /// Enables colours on a terminal, unless `NO_COLOR` (no-color.org) or a terminal without colours forbids them.
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        Self {
            coloured: stream.is_terminal() && !refused && !dumb,
        }
    }

    /// Style without colours.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { coloured: false };

    /// Colours text; the number is that of "select graphic rendition" in ECMA-48.
    pub(crate) fn colour(self, number: u8, text: &str) -> String {
        if self.coloured && number > 0 {
            format!("\x1b[{number}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Dims text that matters less.
    pub(crate) fn dim(self, text: &str) -> String {
        self.colour(2, text)
    }
}

/// Returns the width of the terminal on standard output, or `None` if it is no terminal.
pub(crate) fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    orlop_streaming::terminal::size(stdout)
        .map(|size| usize::from(size.width))
        .filter(|width| *width > 0)
}

/// Truncates text to a number of characters and marks the truncation.
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
