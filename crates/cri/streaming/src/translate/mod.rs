//! Translation of WebSocket clients for servers that support only SPDY, or an older WebSocket.
//!
//! Many runtimes lack two kinds of WebSocket: version 5, which can signal the end of a single stream, and the tunnel
//! of port-forwarding's SPDY. A proxy between client and runtime speaks these with the client, and SPDY with the
//! runtime, which can express both. All other requests are forwarded unchanged.

mod port_forward;
mod remote_command;

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::client::{ClientError, ClientOptions, Protocol};
use crate::flow::{Limits, Transport};
use crate::protocol::{TUNNELLED_PORT_FORWARD, Version, WEBSOCKET_UPGRADE};
use crate::server::{agree_websocket, listed};

/// Time limit for the client to complete the upgrade.
const UPGRADE_LIMIT: Duration = Duration::from_secs(30);
const STREAM_BYTES: usize = 512 * 1024;
const CONNECTION_BYTES: usize = 4 * 1024 * 1024;
const STREAMS: usize = 16;

/// The streams of a session; they must be those that the server's URL was created for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStreams {
    /// Whether the client sends input.
    pub stdin: bool,
    /// Whether the client reads the output.
    pub stdout: bool,
    /// Whether the client reads the error output; never with a terminal.
    pub stderr: bool,
    /// Whether there is a terminal, whose size the client sends.
    pub tty: bool,
}

/// The kind of session behind the server's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// An exec or attach.
    Session(SessionStreams),
    /// A port-forward to a pod.
    PortForward,
}

/// A client and a server that are about to be connected.
pub struct Translation {
    /// The response for the client.
    pub reply: Response<Full<Bytes>>,
    upgrade: OnUpgrade,
    joint: Joint,
    idle: Duration,
}

enum Joint {
    Session(Box<remote_command::Upstream>),
    PortForward(Transport),
    /// The client's request was refused.
    None,
}

/// Whether a request is for one of the WebSocket protocols that are translated here.
pub fn is_translated(headers: &HeaderMap, behind: Behind) -> bool {
    let has = |name: &str, value: &str| {
        let all = listed(headers, name);
        all.iter().any(|it| it.eq_ignore_ascii_case(value))
    };
    has(UPGRADE.as_str(), WEBSOCKET_UPGRADE)
        && has(CONNECTION.as_str(), "upgrade")
        && has("Sec-WebSocket-Protocol", protocol(behind))
}

fn protocol(behind: Behind) -> &'static str {
    match behind {
        Behind::Session(_) => Version::WEBSOCKET[0].0,
        Behind::PortForward => TUNNELLED_PORT_FORWARD,
    }
}

impl Translation {
    /// Connects to the server behind `url` and negotiates with the client. After the client has received the reply,
    /// [`Translation::run`] connects the two.
    pub async fn prepare<B>(
        request: &mut Request<B>,
        url: &str,
        behind: Behind,
        options: &ClientOptions,
        idle: Duration,
    ) -> Result<Self, ClientError> {
        // Only this protocol of the client's offers, whatever it prefers.
        let mut headers = request.headers().clone();
        headers.insert(
            "Sec-WebSocket-Protocol",
            http::HeaderValue::from_static(protocol(behind)),
        );
        let port_forward = behind == Behind::PortForward;
        let (reply, joint) = match agree_websocket(&headers, port_forward) {
            Err(refusal) => (*refusal, Joint::None),
            Ok((_, reply)) => {
                let options = ClientOptions {
                    protocol: Protocol::Spdy,
                    ..options.clone()
                };
                let joint = match behind {
                    Behind::Session(streams) => Joint::Session(Box::new(
                        remote_command::Upstream::open(url, streams, &options).await?,
                    )),
                    Behind::PortForward => {
                        Joint::PortForward(port_forward::dial(url, &options).await?)
                    }
                };
                (reply, joint)
            }
        };
        Ok(Self {
            reply,
            upgrade: hyper::upgrade::on(request),
            joint,
            idle,
        })
    }

    /// Splits into the response for the client and the future to run after it is sent.
    pub fn split(
        self,
    ) -> (
        Response<Full<Bytes>>,
        impl Future<Output = ()> + Send + 'static,
    ) {
        let Self {
            reply,
            upgrade,
            joint,
            idle,
        } = self;
        (reply, run(upgrade, joint, idle))
    }
}

/// Relays between client and server until one of them ends or the idle timeout expires.
async fn run(upgrade: OnUpgrade, joint: Joint, idle: Duration) {
    if matches!(joint, Joint::None) {
        return;
    }
    let upgraded = match tokio::time::timeout(UPGRADE_LIMIT, upgrade).await {
        Ok(Ok(upgraded)) => upgraded,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a streaming client disconnected during the upgrade");
            return;
        }
        Err(_) => {
            tracing::debug!("a streaming client did not complete the upgrade in time");
            return;
        }
    };
    let client = Transport::from_io(TokioIo::new(upgraded));
    let limits = Limits {
        streams: STREAMS,
        stream_bytes: STREAM_BYTES,
        connection_bytes: CONNECTION_BYTES,
        idle,
    };
    match joint {
        Joint::Session(upstream) => upstream.join(client, limits).await,
        Joint::PortForward(server) => port_forward::join(client, server, limits).await,
        Joint::None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_older_servers_do_not_know_is_translated() {
        let session = Behind::Session(SessionStreams::default());
        for (upgrade, protocols, behind, expected) in [
            ("websocket", "v5.channel.k8s.io", session, true),
            (
                "WebSocket",
                "v4.channel.k8s.io, v5.channel.k8s.io",
                session,
                true,
            ),
            ("websocket", "v4.channel.k8s.io", session, false),
            ("websocket", "v5.channel.k8s.io", Behind::PortForward, false),
            (
                "websocket",
                "SPDY/3.1+portforward.k8s.io",
                Behind::PortForward,
                true,
            ),
            ("SPDY/3.1", "v5.channel.k8s.io", session, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONNECTION, http::HeaderValue::from_static("Upgrade"));
            headers.insert(UPGRADE, http::HeaderValue::from_static(upgrade));
            headers.insert(
                "Sec-WebSocket-Protocol",
                http::HeaderValue::from_static(protocols),
            );
            assert_eq!(
                is_translated(&headers, behind),
                expected,
                "{upgrade} {protocols}"
            );
        }
    }
}
