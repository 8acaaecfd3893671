//! Streams between this process's terminal and a session in a container.

use std::io::{self, IsTerminal};

use anyhow::{Context, bail};
use orlop_streaming::client::ClientStreams;
use orlop_streaming::terminal::{DetachKeys, Detachable, RawMode, SizeWatch, input, output};
use tokio_util::sync::CancellationToken;

/// Local side of a session. Dropping it restores the terminal.
pub(crate) struct Side {
    #[allow(dead_code, reason = "held for its drop")]
    raw: Option<RawMode>,
    sizes: Option<SizeWatch>,
    detached: Option<CancellationToken>,
}

impl Side {
    /// Connects the standard streams. With a TTY there is no error stream, keys are sent unprocessed, and ctrl-p ctrl-q
    /// detaches.
    pub(crate) fn take(stdin: bool, tty: bool) -> anyhow::Result<(Self, ClientStreams)> {
        if tty && !stdin {
            bail!("a TTY (-t) also needs standard input (-i)");
        }
        if tty && !io::stdin().is_terminal() {
            bail!("standard input is not a terminal; leave out -t");
        }
        let mut side = Self {
            raw: None,
            sizes: None,
            detached: None,
        };
        let mut streams = ClientStreams {
            stdout: Some(Box::new(output(io::stdout())?)),
            ..ClientStreams::default()
        };
        if !tty {
            streams.stderr = Some(Box::new(output(io::stderr())?));
            if stdin {
                streams.stdin = Some(Box::new(input(io::stdin())?));
            }
            return Ok((side, streams));
        }
        let keys = Detachable::new(input(io::stdin())?, DetachKeys::default());
        side.detached = Some(keys.detached());
        streams.stdin = Some(Box::new(keys));
        side.sizes = SizeWatch::start(io::stdin())?;
        streams.resize = side.sizes.as_ref().map(SizeWatch::sizes);
        side.raw = RawMode::enable(io::stdin()).context("cannot change the terminal settings")?;
        Ok((side, streams))
    }

    /// Waits for the detach keys.
    pub(crate) async fn detached(&self) {
        match &self.detached {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    }
}
