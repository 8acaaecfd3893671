//! Translation of port-forward sessions.

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::client::{ClientError, ClientOptions, Dialed};
use crate::flow::{Limits, Role, Transport};
use crate::protocol::PORT_FORWARD;
use crate::tunnel::tunnel;

pub(super) async fn dial(url: &str, options: &ClientOptions) -> Result<Transport, ClientError> {
    let Dialed { transport, .. } = crate::client::dial(url, options, &[PORT_FORWARD]).await?;
    Ok(transport)
}

/// Unwraps the SPDY stream in the client's WebSocket and relays it unchanged.
pub(super) async fn join(client: Transport, server: Transport, limits: Limits) {
    let (client, bridge) = tunnel(client, Role::Server, limits);
    tokio::join!(
        carry(client.reader, server.writer),
        carry(server.reader, client.writer),
    );
    // Waits until the remaining data is sent to the client.
    let _ = bridge.await;
}

async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    if let Err(error) = tokio::io::copy(&mut from, &mut to).await {
        tracing::debug!(%error, "a forwarded connection was interrupted");
    }
    let _ = to.shutdown().await;
}
