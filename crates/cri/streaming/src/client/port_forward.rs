//! Port-forward sessions of the client.

use std::sync::Arc;

use orlop_listen::{AcceptLoop, Activity};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::dial::{ClientOptions, Dialed, LIMITS, Protocol, dial};
use super::error::ClientError;
use crate::body::read_start;
use crate::copying::relay;
use crate::flow::Role;
use crate::protocol::{PORT, PORT_FORWARD, REQUEST_ID, STREAM_TYPE, TUNNELLED_PORT_FORWARD};
use crate::spdy::{Connection, Headers, Opener};
use crate::tunnel::tunnel;

/// Maximum length of an error message; a longer one is cut.
const MAX_MESSAGE: u64 = 16 * 1024;
/// Maximum number of parallel connections in a session: half of the streams that servers allow.
const MAX_FORWARDS: usize = 500;

/// A local listener and the pod's port that it forwards to.
#[derive(Debug)]
pub struct Forward {
    /// The listener for local clients.
    pub listener: TcpListener,
    /// The port in the pod.
    pub port: u16,
}

/// An event while ports are forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardEvent {
    /// A client connected.
    Accepted {
        /// The port in the pod.
        port: u16,
    },
    /// A connection could not be forwarded.
    Failed {
        /// The port in the pod.
        port: u16,
        /// The reason.
        reason: String,
    },
}

/// Forwards connections to the pod behind `url` until `stop` is cancelled, which is a success, or the connection to
/// the server breaks. `report` receives every event, from any task.
pub async fn port_forward(
    url: &str,
    options: &ClientOptions,
    forwards: Vec<Forward>,
    stop: CancellationToken,
    report: impl Fn(ForwardEvent) + Send + Sync + 'static,
) -> Result<(), ClientError> {
    let offer = match options.protocol {
        Protocol::Spdy => PORT_FORWARD,
        Protocol::WebSocket => TUNNELLED_PORT_FORWARD,
    };
    let Dialed { transport, .. } = dial(url, options, &[offer]).await?;
    // Held as long as the connection, because dropping it closes the tunnel.
    let (transport, _bridge) = match options.protocol {
        Protocol::Spdy => (transport, None),
        Protocol::WebSocket => {
            let (inner, bridge) = tunnel(transport, Role::Client, LIMITS);
            (inner, Some(bridge))
        }
    };
    let connection = Connection::start(transport, Role::Client, LIMITS);
    let lost = connection.closed().clone();
    let report: Report = Arc::new(report);
    let mut tasks = JoinSet::new();
    for (index, forward) in forwards.into_iter().enumerate() {
        tasks.spawn(listen(index, forward, connection.opener(), report.clone()));
    }
    let result = tokio::select! {
        () = stop.cancelled() => Ok(()),
        () = lost.cancelled() => Err(ClientError::Lost),
    };
    tasks.shutdown().await;
    connection.close().await;
    result
}

type Report = Arc<dyn Fn(ForwardEvent) + Send + Sync>;

async fn listen(index: usize, forward: Forward, opener: Opener, report: Report) {
    let Forward { listener, port } = forward;
    let doing = format!("accepting a connection to be forwarded to port {port}");
    let accepting = AcceptLoop::new(&doing, MAX_FORWARDS);
    let mut count = 0_u64;
    let each = |(socket, _), activity: Activity| {
        report(ForwardEvent::Accepted { port });
        count += 1;
        let id = format!("{index}.{count}");
        let (opener, report) = (opener.clone(), report.clone());
        // A forwarded connection may be silent for any time.
        let in_progress = activity.request();
        async move {
            let _in_progress = in_progress;
            if let Err(reason) = one(socket, port, &id, &opener).await {
                report(ForwardEvent::Failed { port, reason });
            }
        }
    };
    // Aborted with its task.
    accepting
        .run(listener, CancellationToken::new(), each)
        .await;
}

async fn one(socket: TcpStream, port: u16, id: &str, opener: &Opener) -> Result<(), String> {
    let port = port.to_string();
    let headers = |kind| Headers::new(&[(STREAM_TYPE, kind), (PORT, &port), (REQUEST_ID, id)]);
    let (error, data) =
        tokio::try_join!(opener.open(headers("error")), opener.open(headers("data")))
            .map_err(|error| error.to_string())?;
    drop(error.output);
    let mut message = Vec::new();
    let complaint = async {
        // A lost connection is reported by its owner.
        let _ = read_start(error.input, MAX_MESSAGE, &mut message).await;
        if message.is_empty() {
            std::future::pending::<()>().await;
        }
    };
    let over = CancellationToken::new();
    let mut relaying = std::pin::pin!(relay(data.input, data.output.into(), socket, &over));
    tokio::select! {
        () = &mut relaying => {}
        () = complaint => {
            // Data from before the error is still delivered.
            over.cancel();
            relaying.await;
        }
    }
    if message.is_empty() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&message).into_owned())
    }
}
