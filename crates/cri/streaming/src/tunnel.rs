//! Tunnel of a byte stream through a WebSocket, for SPDY through proxies that only support WebSocket.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio_util::task::AbortOnDropHandle;

use crate::copying::Output;
use crate::flow::{Limits, Role, Transport};
use crate::ws::{Channels, Encoding};

/// Buffer size between the two protocols, per direction.
const BETWEEN: usize = 256 * 1024;
/// How long to wait for the peer's close frame.
const LINGER: Duration = Duration::from_secs(2);

/// Wraps a WebSocket whose binary messages form one byte stream. Dropping the returned handle ends the stream.
pub(crate) fn tunnel(
    outer: Transport,
    role: Role,
    limits: Limits,
) -> (Transport, AbortOnDropHandle<()>) {
    let (near, far) = tokio::io::duplex(BETWEEN);
    let bridge = tokio::spawn(bridge(outer, role, limits, far));
    (Transport::from_io(near), AbortOnDropHandle::new(bridge))
}

async fn bridge(outer: Transport, role: Role, limits: Limits, far: tokio::io::DuplexStream) {
    let channels = Channels::start(outer, role, Encoding::Tunnel, false, 1, limits);
    let mut input = channels.input(0);
    let mut output = Output::from(channels.output(0));
    let (mut far_reader, mut far_writer) = tokio::io::split(far);
    let inward = async {
        // An error means that the peer has vanished; either way the inner protocol sees the end.
        let _ = tokio::io::copy_buf(&mut input, &mut far_writer).await;
        let _ = far_writer.shutdown().await;
    };
    let outward = async {
        let _ = output.copy_from(&mut far_reader).await;
    };
    tokio::join!(inward, async {
        outward.await;
        channels.finish(LINGER).await;
    });
}
