//! HTTP/1.1 up to the point where a connection becomes SPDY or WebSocket.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, UPGRADE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
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

use super::listener::Context;
use super::tokens::Pending;
use super::{port_forward, port_forward_ws, remote_command};
use crate::flow::{Pulse, Transport};
use crate::protocol::{
    ACCEPTED_PROTOCOLS, PORT_FORWARD, PORT_FORWARD_WEBSOCKET, SPDY_UPGRADE, STREAM_PROTOCOL,
    TUNNELLED_PORT_FORWARD, Version, WEBSOCKET_UPGRADE, negotiate,
};
use crate::ws::{Encoding, accept_key};

const HEAD: HeadLimits = HeadLimits {
    time: Duration::from_secs(10),
    bytes: 16 * 1024,
};

pub(crate) type Reply = Response<Full<Bytes>>;
/// An answer that is not an upgrade.
pub(crate) type Refusal = Box<Reply>;

/// What a connection becomes.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    RemoteSpdy(Version),
    RemoteWebSocket(Version, Encoding),
    PortForwardSpdy,
    PortForwardTunnel,
    PortForwardWebSocket(Encoding),
}

/// A request that was answered with an upgrade.
struct Agreed {
    session: Session,
    upgrade: OnUpgrade,
}

/// What a connection became.
struct Session {
    request: Pending,
    plan: Plan,
    /// Held for its end.
    _place: (OwnedSemaphorePermit, InProgress),
}

/// A connection that is no session yet, and when it must have become one.
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

/// Answers requests until one ends in an upgrade.
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

/// Answers a request: with an upgrade and what was agreed on, or with a refusal.
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
    // Someone else may have used the token since it was looked at.
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

fn agree(headers: &HeaderMap, port_forward: bool) -> Result<(Plan, Reply), Refusal> {
    let upgrades = listed(headers, UPGRADE.as_str());
    let asks_upgrade = listed(headers, CONNECTION.as_str())
        .iter()
        .any(|it| it.eq_ignore_ascii_case("upgrade"));
    let wants = |protocol: &str| upgrades.iter().any(|it| it.eq_ignore_ascii_case(protocol));
    if asks_upgrade && wants(WEBSOCKET_UPGRADE) {
        agree_websocket(headers, port_forward)
    } else if asks_upgrade && wants(SPDY_UPGRADE) {
        agree_spdy(headers, port_forward)
    } else {
        let mut reply = refusal(
            StatusCode::UPGRADE_REQUIRED,
            "this URL is for streaming; request an upgrade to SPDY/3.1 or websocket",
        );
        let offers = http::HeaderValue::from_static("SPDY/3.1, websocket");
        reply.headers_mut().insert(UPGRADE, offers);
        reply
            .headers_mut()
            .insert(CONNECTION, http::HeaderValue::from_static("Upgrade"));
        Err(reply)
    }
}

fn agree_spdy(headers: &HeaderMap, port_forward: bool) -> Result<(Plan, Reply), Refusal> {
    let requested = listed(headers, STREAM_PROTOCOL);
    let (plan, chosen) = if port_forward {
        let chosen = negotiate(&requested, &[(PORT_FORWARD, ())]);
        let chosen = chosen.map(|(name, ())| name);
        if chosen.is_none() && !requested.is_empty() {
            return Err(none_in_common(&requested, [PORT_FORWARD]));
        }
        (Plan::PortForwardSpdy, chosen)
    } else {
        match negotiate(&requested, &Version::SPDY) {
            Some((name, version)) => (Plan::RemoteSpdy(version), Some(name)),
            // The oldest clients do not negotiate.
            None if requested.is_empty() => (Plan::RemoteSpdy(Version::V1), None),
            None => {
                return Err(none_in_common(
                    &requested,
                    Version::SPDY.map(|(name, _)| name),
                ));
            }
        }
    };
    let mut reply = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, SPDY_UPGRADE);
    if let Some(chosen) = chosen {
        reply = reply.header(STREAM_PROTOCOL, chosen);
    }
    Ok((plan, complete(reply)))
}

pub(crate) fn agree_websocket(
    headers: &HeaderMap,
    port_forward: bool,
) -> Result<(Plan, Reply), Refusal> {
    let one = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if one("Sec-WebSocket-Version") != Some("13") {
        let mut reply = refusal(
            StatusCode::BAD_REQUEST,
            "only version 13 of WebSocket is supported",
        );
        let version = http::HeaderValue::from_static("13");
        reply.headers_mut().insert("Sec-WebSocket-Version", version);
        return Err(reply);
    }
    let accept = one("Sec-WebSocket-Key")
        .and_then(accept_key)
        .ok_or_else(|| {
            refusal(
                StatusCode::BAD_REQUEST,
                "the Sec-WebSocket-Key is missing or malformed",
            )
        })?;
    let requested = listed(headers, "Sec-WebSocket-Protocol");
    let (plan, chosen) = if port_forward {
        match negotiate(&requested, &[(TUNNELLED_PORT_FORWARD, ())]) {
            Some((name, ())) => (Plan::PortForwardTunnel, Some(name)),
            None => match negotiate(&requested, &PORT_FORWARD_WEBSOCKET) {
                Some((name, encoding)) => (Plan::PortForwardWebSocket(encoding), Some(name)),
                None if requested.is_empty() => {
                    (Plan::PortForwardWebSocket(Encoding::Binary), None)
                }
                None => {
                    let names = PORT_FORWARD_WEBSOCKET.map(|(name, _)| name);
                    return Err(none_in_common(&requested, names));
                }
            },
        }
    } else {
        match negotiate(&requested, &Version::WEBSOCKET) {
            Some((name, (version, encoding))) => {
                (Plan::RemoteWebSocket(version, encoding), Some(name))
            }
            None if requested.is_empty() => {
                (Plan::RemoteWebSocket(Version::V1, Encoding::Binary), None)
            }
            None => {
                return Err(none_in_common(
                    &requested,
                    Version::WEBSOCKET.map(|(name, _)| name),
                ));
            }
        }
    };
    let mut reply = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, WEBSOCKET_UPGRADE)
        .header("Sec-WebSocket-Accept", accept);
    if let Some(chosen) = chosen {
        reply = reply.header("Sec-WebSocket-Protocol", chosen);
    }
    Ok((plan, complete(reply)))
}

/// All members of a header that is a list, over all its lines.
pub(crate) fn listed(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|member| member.trim().to_owned())
        .filter(|member| !member.is_empty())
        .collect()
}

fn none_in_common<const N: usize>(requested: &[String], supported: [&'static str; N]) -> Refusal {
    let message = format!(
        "none of the protocols {} is supported; supported protocols: {}",
        requested.join(", "),
        supported.join(", ")
    );
    let mut reply = refusal(StatusCode::FORBIDDEN, message);
    for name in supported {
        let name = http::HeaderValue::from_static(name);
        reply.headers_mut().append(ACCEPTED_PROTOCOLS, name);
    }
    reply
}

fn refusal(status: StatusCode, message: impl Into<String>) -> Refusal {
    let mut message = message.into();
    message.push('\n');
    let mut reply = Response::new(Full::from(message));
    *reply.status_mut() = status;
    Box::new(reply)
}

fn complete(builder: http::response::Builder) -> Reply {
    builder.body(Full::default()).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot build the upgrade response");
        *refusal(StatusCode::INTERNAL_SERVER_ERROR, "the upgrade failed")
    })
}
