//! Client of the admin service.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::transport::{Endpoint, Uri};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::SERVICE;

/// Timeout of a response.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
/// Size limit of a response: profiles are the largest.
const LONGEST_ANSWER: usize = 64 << 20;

/// Calls one method of the daemon at the socket.
pub(crate) async fn call(
    socket: &Path,
    method: &'static str,
    text: String,
) -> anyhow::Result<String> {
    call_within(socket, method, text, LIMIT).await
}

/// Calls a method whose response takes longer.
pub(crate) async fn call_within(
    socket: &Path,
    method: &'static str,
    text: String,
    limit: Duration,
) -> anyhow::Result<String> {
    let shown = socket.display();
    let path: PathBuf = socket.to_owned();
    let channel = Endpoint::from_static("http://localhost")
        .timeout(limit)
        .connect_timeout(LIMIT)
        .connect_with_connector(service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await
        .map_err(|error| unanswered(socket, &error))?;
    let mut client = Grpc::new(channel).max_decoding_message_size(LONGEST_ANSWER);
    client
        .ready()
        .await
        .with_context(|| format!("the daemon on unix://{shown} closed the connection"))?;
    let path = PathAndQuery::try_from(format!("/{SERVICE}/{method}"))?;
    let codec = ProstCodec::<String, String>::default();
    match client.unary(tonic::Request::new(text), path, codec).await {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(anyhow!("{}", status.message())),
    }
}

/// Reports why the daemon did not respond, without intermediate errors, and what to do about it.
fn unanswered(socket: &Path, error: &tonic::transport::Error) -> anyhow::Error {
    const RUNNING: &str = "check that the daemon is running (`systemctl status orlop`)";
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut kind = None;
    while let Some(error) = cause {
        kind = kind.or(error.downcast_ref::<io::Error>().map(io::Error::kind));
        cause = error.source();
    }
    let shown = socket.display();
    let (problem, way_out) = match kind {
        Some(io::ErrorKind::NotFound) => ("the socket does not exist", RUNNING),
        Some(io::ErrorKind::ConnectionRefused) => ("connection refused", RUNNING),
        Some(io::ErrorKind::PermissionDenied) => ("permission denied", "run as root"),
        _ => return anyhow!("no daemon answers on unix://{shown}: {error}"),
    };
    anyhow!("no daemon answers on unix://{shown}: {problem}; {way_out}")
}
