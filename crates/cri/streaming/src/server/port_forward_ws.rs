//! Port-forward sessions over the numbered channels of a WebSocket: two per port.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::context::Context;
use super::port_forward::failure;
use crate::copying::relay;
use crate::flow::{Limits, Role, Transport};
use crate::session::PortForwardRequest;
use crate::ws::{Channels, Encoding};

/// Channel numbers are bytes, and the last one is reserved.
const MAX_PORTS: usize = 127;

pub(super) async fn serve(
    request: PortForwardRequest,
    encoding: Encoding,
    transport: Transport,
    context: &Arc<Context>,
) {
    let limits: Limits = context.config().session_limits();
    let PortForwardRequest { pod_id, mut ports } = request;
    ports.truncate(MAX_PORTS);
    let count = ports.len() * 2;
    let channels = Channels::start(transport, Role::Server, encoding, false, count, limits);
    let closed = channels.closed().clone();
    let mut forwards = JoinSet::new();
    for (index, port) in ports.into_iter().enumerate() {
        let data = index as u8 * 2;
        let input = channels.input(data);
        channels.discard(data + 1);
        let (mut output, mut error) = (channels.output(data), channels.output(data + 1));
        let (pod_id, context) = (pod_id.clone(), context.clone());
        forwards.spawn(async move {
            // Both channels start with the port, so that clients can tell them apart.
            let greeting = port.to_le_bytes();
            if output.write(&greeting).await.is_err() || error.write(&greeting).await.is_err() {
                return;
            }
            match context.backend.port_forward(pod_id.clone(), port).await {
                Ok(target) => relay(input, output.into(), target, &context.stop).await,
                Err(cause) => {
                    let message = failure(port, &pod_id, &*cause);
                    let _ = error.write(message.as_bytes()).await;
                }
            }
        });
    }
    tokio::select! {
        () = context.stop.cancelled() => {}
        () = closed.cancelled() => {}
        () = async { while forwards.join_next().await.is_some() {} } => {
            channels.finish(super::remote_command::LINGER).await;
            return;
        }
    }
    forwards.shutdown().await;
}
