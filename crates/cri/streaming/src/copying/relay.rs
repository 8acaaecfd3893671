//! Relay between a connection's stream and a socket.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::output::{FIRST_BUFFER, Output};
use crate::flow::{Input, LARGEST_BUFFER};

/// How long data that arrived before the peer's end may take to be delivered.
const LINGER: Duration = Duration::from_secs(5);

/// Copies in both directions until both have ended, the peer has closed the stream, or `over` is cancelled. Each
/// direction ends on its own. In the last two cases data that has arrived is still delivered.
pub(crate) async fn relay(
    input: Input,
    mut output: Output,
    target: impl AsyncRead + AsyncWrite,
    over: &CancellationToken,
) {
    let refused = output.refused();
    let peer_is_lost = CancellationToken::new();
    let (mut reader, mut writer) = tokio::io::split(target);
    let unwanted = || async {
        tokio::select! {
            () = refused.cancelled() => {}
            () = over.cancelled() => {}
        }
    };
    let inward = async {
        let lingering = async {
            unwanted().await;
            sleep(LINGER).await;
        };
        tokio::select! {
            delivered = deliver(input, &mut writer) => if let Delivered::InPart = delivered {
                peer_is_lost.cancel();
            },
            () = lingering => {}
        }
    };
    let outward = async {
        match send(&mut output, &mut reader, unwanted()).await {
            Sent::All => output.close(),
            // The partial data must not look complete.
            Sent::InPart => output.reset(),
            Sent::Unwanted => {
                output.close();
                // Closing a socket with unread input resets the connection, which discards written data that the other
                // side has not read.
                let rest = async { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await };
                tokio::select! {
                    _ = rest => {}
                    () = peer_is_lost.cancelled() => {}
                    () = sleep(LINGER) => {}
                }
            }
        }
    };
    tokio::join!(inward, outward);
}

enum Delivered {
    /// All data until the peer's end was sent, or as much as the socket accepted; the socket may still send.
    Done,
    /// The peer left before the end.
    InPart,
}

async fn deliver(mut input: Input, writer: &mut (impl AsyncWrite + Unpin)) -> Delivered {
    loop {
        let Ok((arrived, _)) = input.fill().await else {
            return Delivered::InPart;
        };
        if arrived.is_empty() {
            let _ = writer.shutdown().await;
            return Delivered::Done;
        }
        match writer.write(arrived).await {
            Ok(written) if written > 0 => input.consumed(written),
            _ => return Delivered::Done,
        }
    }
}

enum Sent {
    All,
    InPart,
    Unwanted,
}

/// Only the read may be cancelled: an incomplete frame would break the connection with all its streams.
async fn send(
    output: &mut Output,
    reader: &mut (impl AsyncRead + Unpin),
    unwanted: impl Future<Output = ()>,
) -> Sent {
    let mut unwanted = std::pin::pin!(unwanted);
    let mut buffer = vec![0; FIRST_BUFFER];
    loop {
        let read = tokio::select! {
            read = reader.read(&mut buffer) => match read {
                Ok(0) => return Sent::All,
                Ok(read) => read,
                Err(_) => return Sent::InPart,
            },
            () = &mut unwanted => return Sent::Unwanted,
        };
        if output.write(&buffer[..read]).await.is_err() {
            return Sent::Unwanted;
        }
        if read == buffer.len() && read < LARGEST_BUFFER {
            buffer.resize(read * 2, 0);
        }
    }
}
