//! Transport to the streaming server of a session.

use orlop_streaming::client::{ClientOptions, Protocol};

use super::tls::TlsFlags;

/// Host for URLs without a host: their runtimes expect the kubelet.
const KUBELET: &str = "http://127.0.0.1:10250";

/// Flags for the transport to the streaming server.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TransportFlags {
    /// Transport protocol of the streams
    #[arg(short = 'r', long, value_name = "PROTOCOL", default_value = "spdy")]
    transport: Transport,

    #[command(flatten)]
    tls: TlsFlags,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Transport {
    #[default]
    Spdy,
    Websocket,
}

impl TransportFlags {
    /// Returns the options of the streaming client.
    pub(crate) fn options(&self, url: &str) -> anyhow::Result<ClientOptions> {
        let protocol = match self.transport {
            Transport::Spdy => Protocol::Spdy,
            Transport::Websocket => Protocol::WebSocket,
        };
        let mut options = ClientOptions {
            protocol,
            ..ClientOptions::default()
        };
        if url.starts_with("https:") {
            options.tls = Some(self.tls.config()?);
            options.server_name = Some(self.tls.server_name().to_owned());
        }
        Ok(options)
    }
}

/// Returns the URL, completed with a host.
pub(crate) fn whole_url(url: &str) -> String {
    if url.starts_with('/') {
        format!("{KUBELET}{url}")
    } else {
        url.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_without_a_host_lead_to_the_kubelet() {
        assert_eq!(whole_url("/exec/a"), "http://127.0.0.1:10250/exec/a");
        assert_eq!(
            whole_url("http://127.0.0.1:1/exec/a"),
            "http://127.0.0.1:1/exec/a"
        );
    }
}
