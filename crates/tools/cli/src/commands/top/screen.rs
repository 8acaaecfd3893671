//! The terminal as a screen of our own, given back as it was.

use std::io::{self, Write};

use anyhow::{Context, bail};
use orlop_streaming::terminal::{RawMode, size};

/// The alternate screen, no cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// While it lives the terminal is ours. Dropping it, by a panic too, gives it back.
pub(super) struct Screen {
    raw: Option<RawMode>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn take() -> anyhow::Result<Self> {
        let mut screen = Self { raw: None };
        screen.take_again()?;
        Ok(screen)
    }

    /// Takes the terminal once more after [`Self::leave`].
    pub(super) fn take_again(&mut self) -> anyhow::Result<()> {
        let raw = RawMode::enable(io::stdin()).context("cannot change the terminal settings")?;
        if raw.is_none() {
            bail!("standard input is not a terminal");
        }
        self.raw = raw;
        Ok(write(ENTER)?)
    }

    /// Gives the terminal to somebody else for a while.
    pub(super) fn leave(&mut self) {
        if self.raw.take().is_some() {
            // There is nobody to tell if the terminal is gone.
            let _ = write(LEAVE);
        }
    }

    /// Columns and rows.
    #[expect(clippy::unused_self, reason = "only who holds the screen asks")]
    pub(super) fn size(&self) -> (usize, usize) {
        let size = size(io::stdout()).filter(|size| size.width > 0 && size.height > 0);
        size.map_or((80, 24), |size| (size.width.into(), size.height.into()))
    }

    /// Shows lines from the top, in one write, so that nothing flickers.
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
