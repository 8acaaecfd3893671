//! Client of the agent's control socket.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use orlop_cli::reactor;
use orlop_streaming::read_body;
use serde::Deserialize;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Limit of a response: more than an agent reports about its pods at once.
const LARGEST: usize = 64 << 20;

/// Default path of the socket.
pub(crate) const DEFAULT: &str = "/run/orlop/node.sock";

/// Timeout of a response.
const PATIENCE: Duration = Duration::from_secs(30);

/// Flag that selects the agent.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {
    /// Socket of the node agent (`orlop node`, `orlop up`)
    #[arg(long, value_name = "PATH", default_value = DEFAULT)]
    socket: PathBuf,
}

/// Outcome of `apply` or `delete`.
#[derive(Debug, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) applied: Vec<Applied>,
    pub(crate) remarks: Vec<orlop_agent::Remark>,
}

/// One object and what the agent did with it.
#[derive(Debug, Deserialize)]
pub(crate) struct Applied {
    pub(crate) object: String,
    pub(crate) verb: String,
}

impl AgentArgs {
    /// Sends a GET request.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        let answer = self.call(Method::GET, path, Bytes::new())?;
        serde_json::from_slice(&answer).context("cannot parse the response of the node agent")
    }

    /// Sends a request that changes something.
    pub(crate) fn order(&self, path: &str, text: String) -> anyhow::Result<Outcome> {
        let answer = self.call(Method::POST, path, text.into())?;
        serde_json::from_slice(&answer).context("cannot parse the response of the node agent")
    }

    fn call(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        let asking = async {
            let all = ask(&self.socket, method, path, body);
            timeout(PATIENCE, all)
                .await
                .with_context(|| format!("the node agent did not answer within {PATIENCE:?}"))?
        };
        let (status, answer) = reactor::client()?.block_on(asking)?;
        if !status.is_success() {
            bail!("{}", String::from_utf8_lossy(&answer).trim());
        }
        Ok(answer)
    }
}

async fn ask(
    socket: &Path,
    method: Method,
    path: &str,
    body: Bytes,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let stream = UnixStream::connect(socket).await.map_err(|error| {
        let shown = socket.display();
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => "run this command as root",
            _ => {
                "start the node agent with `orlop node` or `orlop up`, or give its socket with \
                 --socket"
            }
        };
        anyhow::anyhow!("no node agent answers on {shown} ({error}); {hint}")
    })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driving = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "agent")
        .body(Full::new(body))?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let answer = read_body(response.into_body(), LARGEST).await?;
    drop(sender);
    driving.abort();
    Ok((status, answer))
}

/// Percent-encodes text for a query.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
