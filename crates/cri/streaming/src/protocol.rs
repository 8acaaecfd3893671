//! Names for the negotiation of Kubernetes' streaming protocols.

use crate::ws::Encoding;

/// The `Upgrade` value of SPDY.
pub(crate) const SPDY_UPGRADE: &str = "SPDY/3.1";
/// The `Upgrade` value of WebSocket.
pub(crate) const WEBSOCKET_UPGRADE: &str = "websocket";
/// Header with the versions that a SPDY client supports, and the version that the server selects.
pub(crate) const STREAM_PROTOCOL: &str = "X-Stream-Protocol-Version";
/// Header with the versions that a server supports, sent if none of the client's is among them.
pub(crate) const ACCEPTED_PROTOCOLS: &str = "X-Accepted-Stream-Protocol-Versions";
/// The port-forward protocol over SPDY.
pub(crate) const PORT_FORWARD: &str = "portforward.k8s.io";
/// SPDY port-forward inside a WebSocket.
pub(crate) const TUNNELLED_PORT_FORWARD: &str = "SPDY/3.1+portforward.k8s.io";

/// Header of a SPDY stream with its purpose.
pub(crate) const STREAM_TYPE: &str = "streamType";
/// Header of a port-forward stream with the port in the pod.
pub(crate) const PORT: &str = "port";
/// Header of a port-forward stream that pairs the two streams of a connection.
pub(crate) const REQUEST_ID: &str = "requestID";

/// A version of the remote command protocol, for exec and attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    V1,
    V2,
    V3,
    V4,
    V5,
}

impl Version {
    /// All versions over SPDY, newest first.
    pub(crate) const SPDY: [(&'static str, Self); 5] = [
        ("v5.channel.k8s.io", Self::V5),
        ("v4.channel.k8s.io", Self::V4),
        ("v3.channel.k8s.io", Self::V3),
        ("v2.channel.k8s.io", Self::V2),
        ("channel.k8s.io", Self::V1),
    ];

    /// All protocols over WebSocket.
    pub(crate) const WEBSOCKET: [(&'static str, (Self, Encoding)); 5] = [
        ("v5.channel.k8s.io", (Self::V5, Encoding::Binary)),
        ("v4.channel.k8s.io", (Self::V4, Encoding::Binary)),
        ("v4.base64.channel.k8s.io", (Self::V4, Encoding::Base64)),
        ("channel.k8s.io", (Self::V1, Encoding::Binary)),
        ("base64.channel.k8s.io", (Self::V1, Encoding::Base64)),
    ];

    /// Whether the result is a JSON status; older versions send plain text and only on failure.
    pub(crate) fn has_status(self) -> bool {
        self >= Self::V4
    }

    /// Whether the version supports terminal sizes over SPDY.
    pub(crate) fn has_resize(self) -> bool {
        self >= Self::V3
    }
}

/// The port-forward protocols over WebSocket that use numbered channels.
pub(crate) const PORT_FORWARD_WEBSOCKET: [(&str, Encoding); 2] = [
    ("v4.channel.k8s.io", Encoding::Binary),
    ("v4.base64.channel.k8s.io", Encoding::Base64),
];

/// Returns the first of the client's protocols that the server supports, and its value.
pub(crate) fn negotiate<T: Copy>(
    requested: &[String],
    supported: &[(&'static str, T)],
) -> Option<(&'static str, T)> {
    requested
        .iter()
        .find_map(|wanted| supported.iter().find(|(name, _)| name == wanted))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_preference_decides() {
        let requested = [
            "v9.channel.k8s.io",
            "v3.channel.k8s.io",
            "v4.channel.k8s.io",
        ];
        let requested = requested.map(str::to_owned);
        assert_eq!(
            negotiate(&requested, &Version::SPDY),
            Some(("v3.channel.k8s.io", Version::V3))
        );
        assert_eq!(negotiate(&requested[..1], &Version::SPDY), None);
    }
}
