//! Exec and attach sessions of the client.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::dial::ClientOptions;
use super::error::ClientError;
use super::streams::{Opened, Wanted, open};
use crate::body::read_start;
use crate::copying::Output;
use crate::flow::Input;
use crate::session::TerminalSize;
use crate::status::Status;

/// Maximum size of a status.
const MAX_STATUS: u64 = 64 * 1024;

/// The client's ends of a session's streams. A stream that is `None` must not be requested in the URL.
#[derive(Default)]
pub struct ClientStreams {
    /// The input to send; its end is forwarded.
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// The destination of the output.
    pub stdout: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// The destination of the error output; `None` with a terminal.
    pub stderr: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// The terminal's current size and its changes; `None` without a terminal.
    pub resize: Option<watch::Receiver<TerminalSize>>,
}

/// Runs the command behind `url` and returns its exit code.
pub async fn exec(
    url: &str,
    options: &ClientOptions,
    streams: ClientStreams,
) -> Result<i32, ClientError> {
    run(url, options, streams).await
}

/// Attaches to the container behind `url` until its process or the connection ends.
pub async fn attach(
    url: &str,
    options: &ClientOptions,
    streams: ClientStreams,
) -> Result<(), ClientError> {
    run(url, options, streams).await.map(drop)
}

async fn run(
    url: &str,
    options: &ClientOptions,
    streams: ClientStreams,
) -> Result<i32, ClientError> {
    let ClientStreams {
        stdin,
        stdout,
        stderr,
        resize,
    } = streams;
    let wanted = Wanted {
        stdin: stdin.is_some(),
        stdout: stdout.is_some(),
        stderr: stderr.is_some(),
        resize: resize.is_some(),
    };
    let opened = open(url, options, wanted).await?;
    let Opened {
        status,
        stdin: to_stdin,
        stdout: from_stdout,
        stderr: from_stderr,
        ..
    } = opened;
    let side = async {
        tokio::join!(
            send_input(stdin, to_stdin),
            send_sizes(resize, opened.resize)
        );
        // The server decides when a session ends.
        std::future::pending::<()>().await;
    };
    let session = async {
        let ((), (), status) = tokio::try_join!(
            receive("output", from_stdout, stdout),
            receive("error output", from_stderr, stderr),
            read_status(status),
        )?;
        Ok(status)
    };
    let result = tokio::select! {
        result = session => result,
        () = side => Err(ClientError::Lost),
    };
    opened.wire.close().await;
    let status = result?;
    status
        .exit_code()
        .ok_or(ClientError::Remote(status.message))
}

async fn send_input(source: Option<Box<dyn AsyncRead + Send + Unpin>>, target: Option<Output>) {
    let (Some(mut source), Some(mut target)) = (source, target) else {
        return;
    };
    if let Err(error) = target.copy_from(&mut source).await {
        tracing::debug!(%error, "stopped sending input before its end");
    }
}

async fn send_sizes(sizes: Option<watch::Receiver<TerminalSize>>, target: Option<Output>) {
    let (Some(mut sizes), Some(mut target)) = (sizes, target) else {
        return;
    };
    sizes.mark_changed();
    while sizes.changed().await.is_ok() {
        let size = *sizes.borrow_and_update();
        let Ok(mut message) = serde_json::to_vec(&size) else {
            return;
        };
        message.push(b'\n');
        if target.write(&message).await.is_err() {
            return;
        }
    }
    // The stream stays open as long as the session; closing it has no meaning.
    std::future::pending::<()>().await;
}

async fn receive(
    what: &'static str,
    source: Option<Input>,
    target: Option<Box<dyn AsyncWrite + Send + Unpin>>,
) -> Result<(), ClientError> {
    let (Some(mut source), Some(mut target)) = (source, target) else {
        return Ok(());
    };
    loop {
        let (first, second) = source.fill().await.map_err(|_| ClientError::Lost)?;
        if first.is_empty() {
            return Ok(());
        }
        let local = |source: io::Error| ClientError::Local { what, source };
        let length = first.len() + second.len();
        target.write_all(first).await.map_err(local)?;
        target.write_all(second).await.map_err(local)?;
        target.flush().await.map_err(local)?;
        source.consumed(length);
    }
}

async fn read_status(source: Input) -> Result<Status, ClientError> {
    let mut text = Vec::new();
    let read = read_start(source, MAX_STATUS, &mut text).await;
    if text.is_empty() {
        return Err(ClientError::Lost);
    }
    // A complete status is valid, even if the connection then ended abruptly.
    let whole = serde_json::from_slice(&text);
    if read.is_err() && whole.is_err() {
        return Err(ClientError::Lost);
    }
    whole.map_err(|_| {
        let text = String::from_utf8_lossy(&text);
        ClientError::Remote(format!("cannot parse the result: {text}"))
    })
}
