//! `ExecSync`: runs a command in a container and returns its output. On timeout the command and all its descendants
//! are killed.

use std::time::Duration;

use orlop_cri_api::v1::{ExecSyncRequest, ExecSyncResponse};
use orlop_cri_server::exec_output::{ExecOutput, OutputStream};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use crate::docker::{DockerError, ExecConfig, Frames, Hijacked, Source, Streams};
use crate::error::{Error, Result};
use crate::exec::Running;
use crate::find;
use crate::shim::Shim;

/// How long to wait for remaining output after the command has exited.
const LAST_WORDS: Duration = Duration::from_millis(100);
const BUFFER: usize = 32 * 1024;

pub(crate) async fn call(shim: &Shim, request: ExecSyncRequest) -> Result<ExecSyncResponse> {
    let limit = u64::try_from(request.timeout).map_err(|_| {
        let problem = format!("{} is negative; 0 means no limit", request.timeout);
        Error::invalid("timeout", problem)
    })?;
    if request.cmd.first().is_none_or(String::is_empty) {
        return Err(Error::invalid("cmd", "is empty; specify a command").into());
    }
    let container = find::running_container(&shim.docker, &request.container_id).await?;
    let failed = || Error::engine(format!("running a command in container {}", container.id));
    let config = ExecConfig {
        command: request.cmd,
        streams: Streams {
            stdout: true,
            stderr: true,
            ..Streams::default()
        },
        tty: false,
    };
    let id = shim
        .docker
        .create_exec(&container.id, &config)
        .await
        .map_err(failed())?;
    let mut running = Running::new(&shim.execs, &container.id, &id);
    let connection = shim.docker.start_exec(&id, false).await.map_err(failed())?;
    let limit_of_each = shim.config.containers.exec_output_limit;
    let kept = ExecOutput::new(limit_of_each, &shim.exec_outputs);
    let run = run(&mut running, connection, kept);
    let outcome = match limit {
        0 => run.await,
        seconds => {
            if let Ok(outcome) = timeout(Duration::from_secs(seconds), run).await {
                outcome
            } else {
                running.kill().await;
                let problem = format!(
                    "the command in container {} timed out after {seconds} s and was killed",
                    container.id
                );
                return Err(Error::Timeout(problem).into());
            }
        }
    };
    Ok(outcome.map_err(failed())?)
}

async fn run(
    running: &mut Running,
    connection: Hijacked,
    kept: ExecOutput,
) -> Result<ExecSyncResponse, DockerError> {
    let mut capture = Capture {
        connection,
        frames: Frames::new(false),
        kept,
    };
    // The end of the output is not the exit of the command: the command may close its output, or leave a process that
    // keeps it open.
    let ended = tokio::select! {
        () = capture.all() => None,
        code = running.event() => Some(code),
    };
    let exit_code = match ended {
        Some(code) => {
            running.is_over();
            capture.rest().await;
            code
        }
        None => running.end().await?,
    };
    if capture.kept.is_cut() {
        tracing::info!("truncated the output of an exec process");
    }
    let (stdout, stderr) = capture.kept.take();
    Ok(ExecSyncResponse {
        stdout,
        stderr,
        exit_code,
    })
}

/// Collects output; output beyond the limit is read and discarded.
struct Capture {
    connection: Hijacked,
    frames: Frames,
    kept: ExecOutput,
}

impl Capture {
    async fn all(&mut self) {
        while self.some().await {}
    }

    /// Reads what has already arrived.
    async fn rest(&mut self) {
        while let Ok(true) = timeout(LAST_WORDS, self.some()).await {}
    }

    /// Reads one chunk; `false` at the end.
    async fn some(&mut self) -> bool {
        let mut buffer = vec![0; BUFFER];
        let count = match self.connection.read(&mut buffer).await {
            Ok(0) | Err(_) => return false,
            Ok(count) => count,
        };
        self.frames.feed(&buffer[..count]);
        while let Ok(Some((source, bytes))) = self.frames.next() {
            let stream = match source {
                Source::Stdout => OutputStream::Out,
                Source::Stderr | Source::System => OutputStream::Err,
            };
            self.kept.keep(stream, &bytes);
        }
        true
    }
}
