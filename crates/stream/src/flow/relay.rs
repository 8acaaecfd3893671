//! Joining a stream of a connection to a socket.

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::input::Input;
use super::output::Output;

/// Copies in both directions, each with its own end, until both have ended or the peer gives up.
pub(crate) async fn relay(
    mut input: Input,
    mut output: Output,
    target: impl AsyncRead + AsyncWrite,
) {
    let refused = output.refused();
    let (mut reader, mut writer) = tokio::io::split(target);
    let inward = async move {
        // A socket that takes no more can still have something to say: the other direction goes on.
        if tokio::io::copy_buf(&mut input, &mut writer).await.is_ok() {
            let _ = writer.shutdown().await;
        }
    };
    let outward = async move {
        match output.copy_from(&mut reader).await {
            Ok(_) => output.close(),
            // What came so far must not look complete.
            Err(_) => output.reset(),
        }
    };
    tokio::select! {
        () = refused.cancelled() => {}
        _ = async { tokio::join!(inward, outward) } => {}
    }
}
