//! The protocol upgrade of a connection, as negotiated with its client.

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;

use crate::protocol::{
    ACCEPTED_PROTOCOLS, PORT_FORWARD, PORT_FORWARD_WEBSOCKET, SPDY_UPGRADE, STREAM_PROTOCOL,
    TUNNELLED_PORT_FORWARD, Version, WEBSOCKET_UPGRADE, negotiate,
};
use crate::ws::{Encoding, accept_key};

pub(crate) type Reply = Response<Full<Bytes>>;

/// A response that refuses the upgrade.
pub(crate) type Refusal = Box<Reply>;

/// The protocol after the upgrade.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    RemoteSpdy(Version),
    RemoteWebSocket(Version, Encoding),
    PortForwardSpdy,
    PortForwardTunnel,
    PortForwardWebSocket(Encoding),
}

pub(super) fn agree(headers: &HeaderMap, port_forward: bool) -> Result<(Plan, Reply), Refusal> {
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

/// Returns all members of a list header, over all its lines.
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

pub(super) fn refusal(status: StatusCode, message: impl Into<String>) -> Refusal {
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
