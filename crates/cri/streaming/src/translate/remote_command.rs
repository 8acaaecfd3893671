//! Exec and attach of one protocol, passed on in another.

use std::io;
use std::time::Duration;

use super::SessionStreams;
use crate::body::read_start;
use crate::client::{ClientError, ClientOptions, Opened, Wanted, open};
use crate::copying::Output;
use crate::flow::{Input, Limits, Role, Transport};
use crate::ws::{Channels, Encoding};

/// The client gets this long to read the last of it and close.
const LINGER: Duration = Duration::from_secs(10);
/// A result longer than this is none.
const MAX_STATUS: u64 = 64 * 1024;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CHANNELS: usize = 5;

/// The server's side of a session.
pub(super) struct Upstream {
    streams: SessionStreams,
    opened: Opened,
}

impl Upstream {
    pub(super) async fn open(
        url: &str,
        streams: SessionStreams,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        let wanted = Wanted {
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr && !streams.tty,
            resize: streams.tty,
        };
        let opened = open(url, options, wanted).await?;
        Ok(Self { streams, opened })
    }

    /// Carries the session's streams until its result is told, or one side has gone.
    pub(super) async fn join(self, client: Transport, limits: Limits) {
        let Self { streams, opened } = self;
        let channels = Channels::start(
            client,
            Role::Server,
            Encoding::Binary,
            true,
            CHANNELS,
            limits,
        );
        for (channel, read) in [
            (STDIN, streams.stdin),
            (STDOUT, false),
            (STDERR, false),
            (ERROR, false),
            (RESIZE, streams.tty),
        ] {
            if !read {
                channels.discard(channel);
            }
        }
        let Opened {
            status,
            stdin,
            stdout,
            stderr,
            resize,
            wire,
        } = opened;
        let upward = async {
            tokio::join!(
                send(stdin.map(|to| (channels.input(STDIN), to))),
                send(resize.map(|to| (channels.input(RESIZE), to))),
            );
            // The server decides when a session is over.
            std::future::pending::<()>().await;
        };
        let downward = async {
            let ((), (), result) = tokio::try_join!(
                receive(stdout.map(|from| (from, channels.output(STDOUT).into()))),
                receive(stderr.map(|from| (from, channels.output(STDERR).into()))),
                read_status(status),
            )?;
            channels.output(ERROR).write(&result).await
        };
        let gone = channels.closed().clone();
        let told = tokio::select! {
            told = downward => told,
            () = upward => Ok(()),
            () = gone.cancelled() => Err(io::ErrorKind::ConnectionReset.into()),
        };
        match told {
            Ok(()) => channels.finish(LINGER).await,
            // Without a goodbye: what came until now must not look complete.
            Err(error) => {
                tracing::debug!(%error, "a translated session was interrupted");
                drop(channels);
            }
        }
        wire.close().await;
    }
}

/// Carries what a client sends, and its end. A client that vanished has sent no end: the stream
/// stays open until the connection to the server goes, and the session with it.
async fn send(pair: Option<(Input, Output)>) {
    let Some((mut from, mut to)) = pair else {
        return;
    };
    if let Err(error) = to.copy_from(&mut from).await {
        tracing::debug!(%error, "stopped copying the input of a translated session before its end");
        // What still comes is wanted by nobody.
        drop(from);
        std::future::pending::<()>().await;
    }
}

async fn receive(pair: Option<(Input, Output)>) -> io::Result<()> {
    let Some((mut from, mut to)) = pair else {
        return Ok(());
    };
    to.copy_from(&mut from).await.map(drop)
}

async fn read_status(from: Input) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = read_start(from, MAX_STATUS, &mut text).await;
    // A whole result counts, even where the connection ended without a word after it.
    match read {
        Err(error) if serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_err() => Err(error),
        _ if text.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(text),
    }
}
