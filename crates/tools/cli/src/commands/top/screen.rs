//! The alternate screen of the terminal, restored at the end.

use std::io::{self, Write};

use anyhow::{Context, bail};
use orlop_streaming::terminal::{RawMode, size};

/// Escape sequences for the alternate screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Guard of the terminal mode. Dropping it, also in a panic, restores the terminal.
pub(super) struct Screen {
    raw: Option<RawMode>,
}

impl Screen {
    /// Switches the terminal to the alternate screen.
    pub(super) fn take() -> anyhow::Result<Self> {
        let mut screen = Self { raw: None };
        screen.take_again()?;
        Ok(screen)
    }

    /// Switches again after [`Self::leave`].
    pub(super) fn take_again(&mut self) -> anyhow::Result<()> {
        let raw = RawMode::enable(io::stdin()).context("cannot change the terminal settings")?;
        if raw.is_none() {
            bail!("standard input is not a terminal");
        }
        self.raw = raw;
        Ok(write(ENTER)?)
    }

    /// Restores the terminal for another program.
    pub(super) fn leave(&mut self) {
        if self.raw.take().is_some() {
            // If the terminal is gone, there is nobody to report to.
            let _ = write(LEAVE);
        }
    }

    /// Returns the columns and rows.
    #[expect(clippy::unused_self, reason = "only who holds the screen asks")]
    pub(super) fn size(&self) -> (usize, usize) {
        let size = size(io::stdout()).filter(|size| size.width > 0 && size.height > 0);
        size.map_or((80, 24), |size| (size.width.into(), size.height.into()))
    }

    /// Draws lines from the top in one write, so that nothing flickers.
    #[expect(clippy::unused_self, reason = "only who holds the screen draws")]
    pub(super) fn show(&self, lines: &[String]) -> io::Result<()> {
        let mut text = String::from("\x1b[H");
        for (number, line) in lines.iter().enumerate() {
            if number > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        write(&text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
