//! HTTP/1.1 until a connection is upgraded to SPDY or WebSocket.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use http::header::ALLOW;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use orlop_listen::{Activity, HeadLimits, InProgress, serve_http1};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::server::TlsStream;

use super::context::Context;
use super::tokens::Pending;
use super::upgrade::{Plan, Refusal, Reply, agree, refusal};
use super::{port_forward, port_forward_ws, remote_command};
use crate::flow::{Pulse, Transport};

const HEAD: HeadLimits = HeadLimits {
    time: Duration::from_secs(10),
    bytes: 16 * 1024,
};

/// A request that is accepted for an upgrade.
struct Agreed {
    session: Session,
    upgrade: OnUpgrade,
}

/// An upgraded connection.
struct Session {
    request: Pending,
    plan: Plan,
    /// Guards that are held until the session ends.
    _place: (OwnedSemaphorePermit, InProgress),
}

/// A connection that is not a session yet, and the deadline to become one.
type Visit = (Activity, Instant);

pub(crate) async fn serve_plain(stream: TcpStream, visit: Visit, context: &Arc<Context>) {
    let Some((session, upgraded)) = negotiate_on(stream, visit, context).await else {
        return;
    };
    if let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>() {
        let transport = Transport::from_tcp(parts.io.into_inner());
        let transport = transport.with_leftover(parts.read_buf);
        run(session, transport, context).await;
    }
}

pub(crate) async fn serve_tls(stream: TlsStream<TcpStream>, visit: Visit, context: &Arc<Context>) {
    let Some((session, upgraded)) = negotiate_on(stream, visit, context).await else {
        return;
    };
    if let Ok(parts) = upgraded.downcast::<TokioIo<TlsStream<TcpStream>>>() {
        let stream = parts.io.into_inner();
        let pulse = Pulse::of(stream.get_ref().0.as_fd());
        let transport = Transport::from_io(stream).with_pulse(pulse);
        let transport = transport.with_leftover(parts.read_buf);
        run(session, transport, context).await;
    }
}

async fn run(session: Session, transport: Transport, context: &Arc<Context>) {
    match (session.request, session.plan) {
        (Pending::PortForward(request), Plan::PortForwardWebSocket(encoding)) => {
            port_forward_ws::serve(request, encoding, transport, context).await;
        }
        (Pending::PortForward(request), plan) => {
            let tunnelled = matches!(plan, Plan::PortForwardTunnel);
            port_forward::serve(request, tunnelled, transport, context).await;
        }
        (request, plan) => remote_command::serve(request, plan, transport, context).await,
    }
}

/// Handles requests until one is upgraded.
async fn negotiate_on(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    (activity, end): Visit,
    context: &Arc<Context>,
) -> Option<(Session, Upgraded)> {
    let agreed = Mutex::new(None);
    let answer = |request: Request<Incoming>| {
        let reply = match answer(request, &activity, context) {
            Ok((reply, agreement)) => {
                *agreed.lock() = Some(agreement);
                reply
            }
            Err(refusal) => *refusal,
        };
        std::future::ready(reply)
    };
    tokio::select! {
        () = context.stop.cancelled() => return None,
        result = timeout_at(end, serve_http1(stream, HEAD, activity.clone(), answer)) => match result {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(%error, "a streaming client's request was interrupted");
                return None;
            }
            Err(_) => {
                tracing::debug!("a streaming client did not send its request in time");
                return None;
            }
        },
    }
    let Agreed { session, upgrade } = agreed.into_inner()?;
    match upgrade.await {
        Ok(upgraded) => Some((session, upgraded)),
        Err(error) => {
            tracing::debug!(%error, "a streaming client disconnected during the upgrade");
            None
        }
    }
}

/// Handles a request: accepts it for an upgrade, or returns a refusal.
fn answer(
    mut request: Request<Incoming>,
    activity: &Activity,
    context: &Context,
) -> Result<(Reply, Agreed), Refusal> {
    let path = request.uri().path();
    let unknown = || {
        refusal(
            StatusCode::NOT_FOUND,
            "this URL is unknown, already used or expired",
        )
    };
    let (verb, token) = path
        .strip_prefix('/')
        .and_then(|path| path.split_once('/'))
        .ok_or_else(unknown)?;
    let token = token.to_owned();
    match (context.tokens.peek(&token).ok_or_else(unknown)?, verb) {
        (Pending::Exec(_), "exec")
        | (Pending::Attach(_), "attach")
        | (Pending::PortForward(_), "portforward") => {}
        _ => return Err(unknown()),
    }
    if request.method() != Method::GET && request.method() != Method::POST {
        let mut reply = refusal(StatusCode::BAD_REQUEST, "start streaming with GET or POST");
        reply
            .headers_mut()
            .insert(ALLOW, http::HeaderValue::from_static("GET, POST"));
        return Err(reply);
    }
    let (plan, reply) = agree(request.headers(), verb == "portforward")?;
    let place = Arc::clone(&context.sessions).try_acquire_owned();
    let place = place.map_err(|_| {
        let sessions = context.config().max_sessions;
        let message =
            format!("the limit of {sessions} streaming sessions is reached; try again later");
        refusal(StatusCode::SERVICE_UNAVAILABLE, message)
    })?;
    // Another request may have used the token meanwhile.
    let pending = context.tokens.take(&token).ok_or_else(unknown)?;
    let upgrade = hyper::upgrade::on(&mut request);
    Ok((
        reply,
        Agreed {
            session: Session {
                request: pending,
                plan,
                _place: (place, activity.request()),
            },
            upgrade,
        },
    ))
}
