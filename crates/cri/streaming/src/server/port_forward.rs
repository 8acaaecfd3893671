//! Port-forward sessions over SPDY, directly or inside a WebSocket.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::context::Context;
use crate::copying::relay;
use crate::flow::{Role, Transport};
use crate::protocol::{PORT, REQUEST_ID, STREAM_TYPE};
use crate::session::PortForwardRequest;
use crate::spdy::{Connection, SpdyStream};
use crate::tunnel::tunnel;

/// Timeout for sending an error message, which is then dropped.
const COMPLAINT: Duration = Duration::from_secs(1);

pub(super) async fn serve(
    request: PortForwardRequest,
    tunnelled: bool,
    transport: Transport,
    context: &Arc<Context>,
) {
    let limits = context.config().port_forward_limits();
    // Held as long as the connection, because dropping it closes the tunnel.
    let (transport, _bridge) = if tunnelled {
        let (inner, bridge) = tunnel(transport, Role::Server, limits);
        (inner, Some(bridge))
    } else {
        (transport, None)
    };
    let mut connection = Connection::start(transport, Role::Server, limits);
    let mut pairs = Pairs::default();
    let mut forwards = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = context.stop.cancelled() => break,
            Some(_) = forwards.join_next() => continue,
            () = pairs.overdue() => {
                pairs.drop_overdue().await;
                continue;
            }
            stream = connection.accept() => match stream {
                Some(stream) => stream,
                None => break,
            },
        };
        let deadline = Instant::now() + context.config().creation_timeout;
        if let Some(pair) = pairs.add(stream, deadline) {
            forwards.spawn(forward(pair, request.pod_id.clone(), context.clone()));
        }
    }
    forwards.shutdown().await;
    connection.close().await;
}

/// The two streams of one forwarded connection.
struct Pair {
    port: u16,
    data: SpdyStream,
    error: SpdyStream,
}

/// Streams that wait for their partner.
#[derive(Default)]
struct Pairs {
    waiting: HashMap<String, Half>,
    deadlines: VecDeque<(Instant, String)>,
}

struct Half {
    port: u16,
    is_error: bool,
    stream: SpdyStream,
}

impl Pairs {
    /// Adds a stream and returns the pair that it completes.
    fn add(&mut self, stream: SpdyStream, deadline: Instant) -> Option<Pair> {
        let (id, half) = Half::parse(stream)?;
        half.stream.accept();
        let Some(other) = self.waiting.remove(&id) else {
            self.deadlines.push_back((deadline, id.clone()));
            self.waiting.insert(id, half);
            return None;
        };
        self.deadlines.retain(|(_, waiting)| *waiting != id);
        let (error, data) = match (other.is_error, half.is_error) {
            (true, false) => (other, half),
            (false, true) => (half, other),
            _ => {
                // Two streams of the same kind: their partners cannot be distinguished.
                other.stream.refuse();
                half.stream.refuse();
                return None;
            }
        };
        Some(Pair {
            port: data.port,
            data: data.stream,
            error: error.stream,
        })
    }

    /// Completes when the oldest waiting stream exceeds its deadline.
    async fn overdue(&self) {
        match self.deadlines.front() {
            Some((deadline, _)) => tokio::time::sleep_until(*deadline).await,
            None => std::future::pending().await,
        }
    }

    async fn drop_overdue(&mut self) {
        let Some((_, id)) = self.deadlines.pop_front() else {
            return;
        };
        if let Some(half) = self.waiting.remove(&id) {
            tracing::debug!(id, "a client opened only one of two port-forward streams");
            if half.is_error {
                let mut output = half.stream.output;
                let message = b"timed out waiting for the data stream";
                // A client that does not read this must not block the others.
                let _ = tokio::time::timeout(COMPLAINT, output.write(message)).await;
            }
        }
    }
}

impl Half {
    fn parse(stream: SpdyStream) -> Option<(String, Self)> {
        let is_error = match stream.headers.get(STREAM_TYPE) {
            Some("error") => true,
            Some("data") => false,
            _ => {
                stream.refuse();
                return None;
            }
        };
        let port = stream
            .headers
            .get(PORT)
            .and_then(|port| port.parse::<u16>().ok());
        let Some(port) = port.filter(|port| *port > 0) else {
            stream.refuse();
            return None;
        };
        let id = match stream.headers.get(REQUEST_ID) {
            Some(id) => format!("named {id}"),
            // The oldest clients send no id; they open the error stream right before the data stream.
            None if is_error => format!("stream {}", stream.id()),
            None => format!("stream {}", stream.id().wrapping_sub(2)),
        };
        Some((
            id,
            Self {
                port,
                is_error,
                stream,
            },
        ))
    }
}

async fn forward(pair: Pair, pod_id: String, context: Arc<Context>) {
    let Pair { port, data, error } = pair;
    let mut error_output = error.output;
    match context.backend.port_forward(pod_id.clone(), port).await {
        Ok(target) => relay(data.input, data.output.into(), target, &context.stop).await,
        Err(cause) => {
            let message = failure(port, &pod_id, &*cause);
            let _ = error_output.write(message.as_bytes()).await;
        }
    }
}

/// Formats the error for the client if a port is not reachable.
pub(super) fn failure(
    port: u16,
    pod_id: &str,
    cause: &(dyn std::error::Error + Send + Sync + 'static),
) -> String {
    format!(
        "error forwarding port {port} to pod {pod_id}: {}",
        orlop_text::with_causes(cause)
    )
}
