//! The WebDriver protocol (W3C): commands as JSON over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use serde_json::Value;

use crate::{http, machine};

/// Timeout of a command, longer than any script of a page may take.
const COMMAND_LIMIT: Duration = Duration::from_mins(1);

/// A WebDriver session with one browser.
#[derive(Debug)]
pub(super) struct Driver {
    address: SocketAddr,
    session: String,
}

impl Driver {
    /// Opens a session, which starts the browser.
    pub(super) async fn open(address: SocketAddr, capabilities: Value) -> anyhow::Result<Self> {
        let opened = command(address, Method::POST, "/session", Some(capabilities)).await?;
        let id = opened["sessionId"].as_str();
        let id = id.ok_or_else(|| anyhow!("a session without id: {opened}"))?;
        Ok(Self {
            address,
            session: format!("/session/{id}"),
        })
    }

    /// Sends a GET request.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::GET, path, None).await
    }

    /// Sends a POST request.
    pub(super) async fn post(&self, path: &str, body: Value) -> anyhow::Result<Value> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends a DELETE request.
    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::DELETE, path, None).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        let whole = format!("{}{path}", self.session);
        let answer = command(self.address, method, &whole, body);
        answer
            .await
            .with_context(|| format!("the browser's {path}"))
    }
}

async fn command(
    to: SocketAddr,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> anyhow::Result<Value> {
    let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json; charset=utf-8")
        .body(Full::new(body))?;
    let limit = COMMAND_LIMIT * machine::patience();
    let answer = tokio::time::timeout(limit, http::send(to, request)).await;
    let answer = answer.map_err(|_| anyhow!("no answer within {limit:?}"))??;
    let mut said: Value = serde_json::from_slice(&answer.body)
        .with_context(|| format!("an answer {} that is no JSON", answer.status))?;
    let value = said["value"].take();
    if answer.status.is_success() {
        return Ok(value);
    }
    let text = |name: &str| value[name].as_str().unwrap_or_default().trim().to_owned();
    bail!("{}: {}", text("error"), text("message"))
}
