//! Live streams: this process' own input, output and terminal, joined to a session in a
//! container.

use std::io::{self, IsTerminal};

use anyhow::{Context, bail};
use orlop_stream::client::{ClientOptions, ClientStreams, Protocol};
use orlop_stream::terminal::{DetachKeys, Detachable, RawMode, SizeWatch, input, output};
use tokio_util::sync::CancellationToken;

use super::tls::TlsFlags;

/// Where runtimes that give out URLs without a host mean them to lead: the kubelet.
const KUBELET: &str = "http://127.0.0.1:10250";

/// How the streaming server is reached.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct TransportFlags {
    /// What carries the streams
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
    /// For the streaming client.
    pub(super) fn options(&self, url: &str) -> anyhow::Result<ClientOptions> {
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

/// A URL with a host.
pub(super) fn whole_url(url: &str) -> String {
    if url.starts_with('/') {
        format!("{KUBELET}{url}")
    } else {
        url.to_owned()
    }
}

/// This process' side of a session. When it is dropped the terminal is as it was.
pub(super) struct Side {
    #[allow(dead_code, reason = "held for its drop")]
    raw: Option<RawMode>,
    sizes: Option<SizeWatch>,
    detached: Option<CancellationToken>,
}

impl Side {
    /// Takes the standard streams as the session wants them. With a terminal there is no stream
    /// for errors, keys go through as they are typed, and ctrl-p ctrl-q leaves the session.
    pub(super) fn take(stdin: bool, tty: bool) -> anyhow::Result<(Self, ClientStreams)> {
        if tty && !stdin {
            bail!("a terminal (-t) needs the standard input (-i), too");
        }
        if tty && !io::stdin().is_terminal() {
            bail!("the standard input is no terminal: leave out -t");
        }
        let mut side = Self {
            raw: None,
            sizes: None,
            detached: None,
        };
        let mut streams = ClientStreams {
            stdout: Some(Box::new(output(io::stdout())?)),
            ..ClientStreams::default()
        };
        if !tty {
            streams.stderr = Some(Box::new(output(io::stderr())?));
            if stdin {
                streams.stdin = Some(Box::new(input(io::stdin())?));
            }
            return Ok((side, streams));
        }
        let keys = Detachable::new(input(io::stdin())?, DetachKeys::default());
        side.detached = Some(keys.detached());
        streams.stdin = Some(Box::new(keys));
        side.sizes = SizeWatch::start(io::stdin())?;
        streams.resize = side.sizes.as_ref().map(SizeWatch::sizes);
        side.raw = RawMode::enable(io::stdin()).context("cannot change the terminal's settings")?;
        Ok((side, streams))
    }

    /// Returns when the detach keys were typed.
    pub(super) async fn detached(&self) {
        match &self.detached {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
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
