//! Sending spans to a collector.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use orlop_service::timeline::FinishedCall;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::spans::request;
use crate::config::values::OtlpEndpoint;

/// Calls that end within this time go together.
const PAUSE: Duration = Duration::from_secs(1);

/// Calls that go together at most.
const BATCH: usize = 128;

/// A collector that takes longer gets the next ones.
const LIMIT: Duration = Duration::from_secs(5);

/// Sends finished calls for as long as there are any to come.
pub(crate) fn export(to: OtlpEndpoint, mut calls: mpsc::Receiver<FinishedCall>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy().into_owned();
        let mut well = true;
        let mut batch = Vec::new();
        while calls.recv_many(&mut batch, BATCH).await > 0 {
            sleep(PAUSE).await;
            while batch.len() < BATCH
                && let Ok(call) = calls.try_recv()
            {
                batch.push(call);
            }
            let body = request(&batch, &host).to_string();
            batch.clear();
            let sent = timeout(LIMIT, send(&to, body))
                .await
                .unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {LIMIT:?}")));
            match sent {
                Ok(()) => well = true,
                // Once per spell: a collector that is away would fill the log.
                Err(error) if well => {
                    tracing::warn!(%to, "traces are lost: {error:#}");
                    well = false;
                }
                Err(error) => tracing::debug!(%to, "traces are lost: {error:#}"),
            }
        }
    })
}

async fn send(to: &OtlpEndpoint, body: String) -> anyhow::Result<()> {
    let host = to.host.trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, to.port))
        .await
        .context("connecting")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let request = Request::post(&to.path)
        .header(header::HOST, format!("{}:{}", to.host, to.port))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let answer = sender.send_request(request).await;
    driver.abort();
    let status = answer?.status();
    if !status.is_success() {
        bail!("the collector answers {status}");
    }
    Ok(())
}
