//! Setup of the streams of an exec or attach session, over either protocol.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::copying::Output;
use crate::flow::{Input, Limits, Role, Transport};
use crate::protocol::{STREAM_TYPE, Version};
use crate::session::{Resizes, Session};
use crate::spdy::{Connection, SpdySink, SpdyStream};
use crate::ws::{Channels, Encoding};

/// The streams of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

/// A session with its streams, and the sender of its result.
pub(super) struct Streams {
    pub(super) session: Session,
    pub(super) status: Output,
    pub(super) wire: Wire,
}

/// The purposes of the streams of a SPDY session.
const KINDS: [&str; 5] = ["error", "stdin", "stdout", "stderr", "resize"];
/// Maximum number of unused streams; more are refused.
const MAX_UNUSED: usize = 8;

/// The connection below a session.
pub(super) enum Wire {
    Spdy {
        connection: Connection,
        /// The unused directions of streams, held until the session ends.
        unused: Vec<SpdySink>,
    },
    WebSocket(Channels),
}

impl Wire {
    pub(super) fn closed(&self) -> &CancellationToken {
        match self {
            Self::Spdy { connection, .. } => connection.closed(),
            Self::WebSocket(channels) => channels.closed(),
        }
    }

    /// Accepts additional streams of the client while it is polled. Clients wait for the reply even if the stream has
    /// no use, such as sizes without a terminal.
    pub(super) async fn welcome_latecomers(&mut self) {
        if let Self::Spdy { connection, unused } = self {
            while let Some(stream) = connection.accept().await {
                let kind = stream.headers.get(STREAM_TYPE).unwrap_or_default();
                if KINDS.contains(&kind) && unused.len() < MAX_UNUSED {
                    stream.accept();
                    unused.push(stream.output);
                } else {
                    stream.refuse();
                }
            }
        }
        std::future::pending::<()>().await;
    }

    /// Ends the session: waits for the client to read all and close, then closes the connection.
    pub(super) async fn finish(self, linger: Duration) {
        match self {
            Self::Spdy { connection, unused } => {
                drop(unused);
                connection.finish(linger).await;
            }
            Self::WebSocket(channels) => channels.finish(linger).await,
        }
    }
}

/// Waits for the streams that a SPDY client opens. `None` if it disconnects before all are open.
pub(super) async fn over_spdy(
    transport: Transport,
    version: Version,
    wanted: Wanted,
    limits: Limits,
) -> Option<Streams> {
    let mut connection = Connection::start(transport, Role::Server, limits);
    let resizable = wanted.tty && version.has_resize();
    let [error, stdin, stdout, stderr, resize] = KINDS;
    let mut slots = [
        Slot::new(error, true),
        Slot::new(stdin, wanted.stdin),
        Slot::new(stdout, wanted.stdout),
        Slot::new(stderr, wanted.stderr && !wanted.tty),
        Slot::new(resize, resizable),
    ];
    while slots
        .iter()
        .any(|slot| slot.wanted && slot.stream.is_none())
    {
        let stream = connection.accept().await?;
        let kind = stream.headers.get(STREAM_TYPE).unwrap_or_default();
        let slot = slots
            .iter_mut()
            .find(|slot| slot.name == kind && slot.stream.is_none());
        if let Some(slot) = slot {
            stream.accept();
            slot.stream = Some(stream);
        } else {
            tracing::debug!(kind, "a client opened a stream of an unknown type");
            stream.refuse();
        }
    }
    let mut unused = Vec::new();
    let [error, stdin, stdout, stderr, resize] = slots;
    let status = error.stream?.output.into();
    let mut receiving = |slot: Slot| {
        let stream = slot.stream?;
        unused.push(stream.output);
        slot.wanted.then_some(stream.input)
    };
    let stdin: Option<Input> = receiving(stdin);
    let resizes = receiving(resize).map(Resizes::read);
    let mut sending = |slot: Slot| {
        let stream = slot.stream?;
        if slot.wanted {
            return Some(Output::from(stream.output));
        }
        unused.push(stream.output);
        None
    };
    let stdout = sending(stdout);
    let stderr = sending(stderr);
    let gone = connection.closed().clone();
    let session = Session {
        stdin,
        stdout,
        stderr,
        resizes,
        gone,
    };
    Some(Streams {
        session,
        status,
        wire: Wire::Spdy { connection, unused },
    })
}

struct Slot {
    name: &'static str,
    wanted: bool,
    stream: Option<SpdyStream>,
}

impl Slot {
    fn new(name: &'static str, wanted: bool) -> Self {
        Self {
            name,
            wanted,
            stream: None,
        }
    }
}

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CHANNELS: usize = 5;

/// Sets up the fixed channels of a WebSocket.
pub(super) async fn over_websocket(
    transport: Transport,
    version: Version,
    encoding: Encoding,
    wanted: Wanted,
    limits: Limits,
) -> Option<Streams> {
    let version_5 = version == Version::V5;
    let channels = Channels::start(
        transport,
        Role::Server,
        encoding,
        version_5,
        CHANNELS,
        limits,
    );
    let stderr = wanted.stderr && !wanted.tty;
    for (channel, read) in [
        (STDIN, wanted.stdin),
        (STDOUT, false),
        (STDERR, false),
        (ERROR, false),
        (RESIZE, wanted.tty),
    ] {
        if !read {
            channels.discard(channel);
        }
    }
    let first = if wanted.stdout {
        STDOUT
    } else if stderr {
        STDERR
    } else {
        ERROR
    };
    channels.announce(first).await.ok()?;
    let session = Session {
        stdin: wanted.stdin.then(|| channels.input(STDIN)),
        stdout: wanted.stdout.then(|| channels.output(STDOUT).into()),
        stderr: stderr.then(|| channels.output(STDERR).into()),
        resizes: wanted.tty.then(|| Resizes::read(channels.input(RESIZE))),
        gone: channels.closed().clone(),
    };
    Some(Streams {
        session,
        status: channels.output(ERROR).into(),
        wire: Wire::WebSocket(channels),
    })
}
