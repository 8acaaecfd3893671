//! Exec calls of the engine's API.

use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};

use super::client::{Docker, escaped};
use super::containers::Streams;
use super::error::Result;
use super::hijack::Hijacked;
use super::types::Exec;

/// A command to run in a container.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExecConfig {
    pub(crate) command: Vec<String>,
    pub(crate) streams: Streams,
    pub(crate) tty: bool,
}

impl Docker {
    /// Creates an exec in the engine without starting it.
    pub(crate) async fn create_exec(&self, container: &str, config: &ExecConfig) -> Result<String> {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Body<'a> {
            attach_stdin: bool,
            attach_stdout: bool,
            attach_stderr: bool,
            tty: bool,
            cmd: &'a [String],
        }
        #[derive(Deserialize)]
        struct Made {
            #[serde(rename = "Id")]
            id: String,
        }
        let body = Body {
            attach_stdin: config.streams.stdin,
            attach_stdout: config.streams.stdout,
            attach_stderr: config.streams.stderr,
            tty: config.tty,
            cmd: &config.command,
        };
        let path = format!("/containers/{}/exec", escaped(container));
        let made: Made = self.post(&path, &body).await?;
        Ok(made.id)
    }

    /// Starts an exec and connects to its streams.
    pub(crate) async fn start_exec(&self, exec: &str, tty: bool) -> Result<Hijacked> {
        let body = format!("{{\"Detach\":false,\"Tty\":{tty}}}");
        self.hijack(
            &format!("/exec/{}/start", escaped(exec)),
            Some(Bytes::from(body)),
        )
        .await
    }

    pub(crate) async fn exec(&self, exec: &str) -> Result<Exec> {
        self.get(&format!("/exec/{}/json", escaped(exec))).await
    }

    pub(crate) async fn resize_exec(&self, exec: &str, columns: u16, rows: u16) -> Result<()> {
        let path = format!("/exec/{}/resize?h={rows}&w={columns}", escaped(exec));
        self.act(Method::POST, &path, None, self.limit()).await
    }
}
