//! Translation of exec and attach sessions.

use std::io;
use std::time::Duration;

use super::SessionStreams;
use crate::body::read_start;
use crate::client::{ClientError, ClientOptions, Opened, Wanted, open};
use crate::copying::Output;
use crate::flow::{Input, Limits, Role, Transport};
use crate::ws::{Channels, Encoding};

/// How long the client may take to read the remaining data and close.
const LINGER: Duration = Duration::from_secs(10);
/// Maximum size of a result.
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

    /// Relays the session's streams until its result arrives or one side disconnects.
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
            // The server decides when a session ends.
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
            // Closes without a close frame: the data so far must not look complete.
            Err(error) => {
                tracing::debug!(%error, "a translated session was interrupted");
                drop(channels);
            }
        }
        wire.close().await;
    }
}

/// Relays the client's input and its end. If the client vanishes, the end is not signalled: the stream stays open
/// until the server's connection closes, which ends the session.
async fn send(pair: Option<(Input, Output)>) {
    let Some((mut from, mut to)) = pair else {
        return;
    };
    if let Err(error) = to.copy_from(&mut from).await {
        tracing::debug!(%error, "stopped copying the input of a translated session before its end");
        // Further input is discarded.
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
    // A complete result is valid, even if the connection then ended abruptly.
    match read {
        Err(error) if serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_err() => Err(error),
        _ if text.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(text),
    }
}
