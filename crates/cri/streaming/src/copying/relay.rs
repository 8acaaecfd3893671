//! Joining a stream of a connection to a socket.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::output::{FIRST_BUFFER, Output};
use crate::flow::{Input, LARGEST_BUFFER};

/// What had arrived by the time that the peer wanted no more may take so long to be delivered.
const LINGER: Duration = Duration::from_secs(5);

/// Copies in both directions, each with its own end, until both have ended, the peer has given up,
/// or `over` is cancelled. In the last two cases what has arrived is still delivered.
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
            // What came so far must not look complete.
            Sent::InPart => output.reset(),
            Sent::Unwanted => {
                output.close();
                // A socket that is closed with something unread in it takes back what was written
                // to it and not yet read on the other side.
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
    /// All that came until the peer's end, or as much as the socket took: it can still have
    /// something to say.
    Done,
    /// The peer left in the middle.
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

/// Only the reading is given up half-way: a frame that is not written to its end takes the whole
/// connection along, with all its other streams.
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
