//! The names under which Kubernetes' streaming protocols are negotiated.

use crate::ws::Encoding;

/// The `Upgrade` value of SPDY.
pub(crate) const SPDY_UPGRADE: &str = "SPDY/3.1";
/// The `Upgrade` value of WebSocket.
pub(crate) const WEBSOCKET_UPGRADE: &str = "websocket";
/// Header with the versions that a SPDY client can speak, and the one the server chose.
pub(crate) const STREAM_PROTOCOL: &str = "X-Stream-Protocol-Version";
/// Header with the versions a server speaks, when none of the client's was among them.
pub(crate) const ACCEPTED_PROTOCOLS: &str = "X-Accepted-Stream-Protocol-Versions";
/// The one port-forward protocol over SPDY.
pub(crate) const PORT_FORWARD: &str = "portforward.k8s.io";
/// SPDY port-forward within a WebSocket.
pub(crate) const TUNNELLED_PORT_FORWARD: &str = "SPDY/3.1+portforward.k8s.io";

/// Header of a SPDY stream that says what it carries.
pub(crate) const STREAM_TYPE: &str = "streamType";
/// Header of a port-forward stream with the port in the pod.
pub(crate) const PORT: &str = "port";
/// Header of a port-forward stream that says which two streams belong together.
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

    /// Whether the result is a JSON status; before, it was plain text and only about failures.
    pub(crate) fn has_status(self) -> bool {
        self >= Self::V4
    }

    /// Whether a terminal's size can be told over SPDY.
    pub(crate) fn has_resize(self) -> bool {
        self >= Self::V3
    }
}

/// The port-forward protocols over WebSocket that number the ports' channels.
pub(crate) const PORT_FORWARD_WEBSOCKET: [(&str, Encoding); 2] = [
    ("v4.channel.k8s.io", Encoding::Binary),
    ("v4.base64.channel.k8s.io", Encoding::Base64),
];

/// The first of the client's protocols that the server has, with what it stands for.
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
