//! Streams of a session as the client opens them, over either protocol.

use std::time::Duration;

use super::dial::{ClientOptions, Dialed, LIMITS, Protocol, dial};
use super::error::ClientError;
use crate::copying::Output;
use crate::flow::{Input, Role};
use crate::protocol::STREAM_TYPE;
use crate::spdy::{Connection, Headers, SpdyStream};
use crate::ws::{Channels, Encoding};

/// Protocol versions that report an exit code; every server of the last ten years supports the second.
const OFFERS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
/// Timeout for closing the connection.
const LINGER: Duration = Duration::from_secs(2);

/// The streams of the session; they must match those requested for the URL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) resize: bool,
}

/// The open streams of a session.
pub(crate) struct Opened {
    pub(crate) status: Input,
    pub(crate) stdin: Option<Output>,
    pub(crate) stdout: Option<Input>,
    pub(crate) stderr: Option<Input>,
    pub(crate) resize: Option<Output>,
    pub(crate) wire: Wire,
}

/// The connection below a session.
pub(crate) enum Wire {
    Spdy(Connection),
    WebSocket(Channels),
}

impl Wire {
    pub(crate) async fn close(self) {
        match self {
            Self::Spdy(connection) => connection.close().await,
            Self::WebSocket(channels) => channels.finish(LINGER).await,
        }
    }
}

pub(crate) async fn open(
    url: &str,
    options: &ClientOptions,
    wanted: Wanted,
) -> Result<Opened, ClientError> {
    let Dialed { transport, chosen } = dial(url, options, &OFFERS).await?;
    match options.protocol {
        Protocol::Spdy => {
            let connection = Connection::start(transport, Role::Client, LIMITS);
            let opening = open_spdy(connection, wanted);
            tokio::time::timeout(options.timeout, opening)
                .await
                .map_err(|_| ClientError::Timeout(url.to_owned()))?
        }
        Protocol::WebSocket => {
            let version_5 = chosen == OFFERS[0];
            let channels = Channels::start(
                transport,
                Role::Client,
                Encoding::Binary,
                version_5,
                5,
                LIMITS,
            );
            Ok(open_channels(channels, wanted))
        }
    }
}

async fn open_spdy(connection: Connection, wanted: Wanted) -> Result<Opened, ClientError> {
    let opener = connection.opener();
    let open =
        async |name: &'static str, wanted: bool| -> Result<Option<SpdyStream>, ClientError> {
            if !wanted {
                return Ok(None);
            }
            let opened = opener.open(Headers::new(&[(STREAM_TYPE, name)])).await;
            let failed = |error: crate::spdy::OpenError| ClientError::Stream {
                stream: name,
                reason: error.to_string(),
            };
            opened.map(Some).map_err(failed)
        };
    // All at once: one round trip instead of five. The requests are sent in this order.
    let (error, stdin, stdout, stderr, resize) = tokio::try_join!(
        open("error", true),
        open("stdin", wanted.stdin),
        open("stdout", wanted.stdout),
        open("stderr", wanted.stderr),
        open("resize", wanted.resize),
    )?;
    Ok(Opened {
        status: error.ok_or(ClientError::Lost)?.input,
        stdin: stdin.map(|stream| stream.output.into()),
        stdout: stdout.map(|stream| stream.input),
        stderr: stderr.map(|stream| stream.input),
        resize: resize.map(|stream| stream.output.into()),
        wire: Wire::Spdy(connection),
    })
}

fn open_channels(channels: Channels, wanted: Wanted) -> Opened {
    for (channel, read) in [
        (0, false),
        (1, wanted.stdout),
        (2, wanted.stderr),
        (4, false),
    ] {
        if !read {
            channels.discard(channel);
        }
    }
    Opened {
        status: channels.input(3),
        stdin: wanted.stdin.then(|| channels.output(0).into()),
        stdout: wanted.stdout.then(|| channels.input(1)),
        stderr: wanted.stderr.then(|| channels.input(2)),
        resize: wanted.resize.then(|| channels.output(4).into()),
        wire: Wire::WebSocket(channels),
    }
}
