//! `ExecSync`: runs a command in a container and returns its output.

use std::time::Duration;

use orlop_cri_api::v1::{ExecSyncRequest, ExecSyncResponse};
use orlop_cri_server::exec_output::{ExecOutput, OutputStream};
use parking_lot::Mutex;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

use crate::container::command::{self, Session};
use crate::engine::Engine;
use crate::error::{Error, Result};

/// Number of reads of [`BUFFER`] bytes that empty any pipe: an unprivileged one holds at most 1 MiB.
const READS: usize = 64;
const BUFFER: usize = 16 * 1024;

/// Handles the `ExecSync` call.
pub async fn call(Engine(node): &Engine, request: ExecSyncRequest) -> Result<ExecSyncResponse> {
    let limit = match request.timeout {
        0 => None,
        seconds => Some(Duration::from_secs(u64::try_from(seconds).map_err(
            |_| {
                Error::invalid(
                    "timeout",
                    format!("{seconds} is negative; 0 means no limit"),
                )
            },
        )?)),
    };
    // The limit includes the start, so that a probe fails if its start is slow.
    let deadline = limit.map(|limit| Instant::now() + limit);
    let container = node.containers.running(&request.container_id)?;
    let (stdout, stdout_end) = command::output_pipe()?;
    let (stderr, stderr_end) = command::output_pipe()?;
    let io = command::streams(command::no_input()?, stdout_end, stderr_end);
    let timed_out = || {
        let (id, after) = (&container.id, limit.unwrap_or_default());
        let problem = format!("the command in container {id} timed out after {after:?}");
        Error::Timeout(problem)
    };
    let start = Session::start(node, &container, &request.cmd, io);
    // If the start times out, it is completed in the background and then undone.
    let mut session = by(deadline, start).await.ok_or_else(timed_out)??;

    let each = node.config().containers.exec_output_limit;
    let kept = Mutex::new(ExecOutput::new(each, &node.exec_outputs));
    let out = Capture::new(stdout, OutputStream::Out, &kept);
    let err = Capture::new(stderr, OutputStream::Err, &kept);
    let finished = {
        let run = async {
            tokio::select! {
                // End of file on the pipes does not end it: the command may have closed its output early.
                status = session.wait() => status,
                never = out.follow() => never,
                never = err.follow() => never,
            }
        };
        by(deadline, run).await
    };
    let Some(status) = finished else {
        session.kill().await;
        return Err(timed_out().into());
    };
    let status = status?;
    // All output of the command itself is in the pipes by now. Later output of processes that it left behind is
    // dropped.
    out.take_rest();
    err.take_rest();
    session.finish();
    let mut kept = kept.into_inner();
    if kept.is_cut() {
        tracing::info!(container = %container.id, "truncated the output of a command to the size limit");
    }
    let (stdout, stderr) = kept.take();
    Ok(ExecSyncResponse {
        stdout,
        stderr,
        exit_code: i32::try_from(status.code).unwrap_or(-1),
    })
}

/// Runs work until an optional deadline; returns `None` if the deadline passes.
async fn by<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

/// Collects output up to a limit, and drops the rest.
struct Capture<'k> {
    pipe: pipe::Receiver,
    stream: OutputStream,
    kept: &'k Mutex<ExecOutput>,
}

impl<'k> Capture<'k> {
    fn new(pipe: pipe::Receiver, stream: OutputStream, kept: &'k Mutex<ExecOutput>) -> Self {
        Self { pipe, stream, kept }
    }

    /// Reads for as long as it is polled.
    async fn follow<T>(&self) -> T {
        while self.pipe.readable().await.is_ok() {
            if self.read_available() == End::Closed {
                break;
            }
            // A command with endless output must not starve other tasks.
            tokio::task::yield_now().await;
        }
        std::future::pending().await
    }

    /// Reads the remaining content of the pipe. Calls the kernel directly, because the reactor may not have seen the
    /// last output yet.
    fn take_rest(&self) {
        let mut buffer = [0; BUFFER];
        for _ in 0..READS {
            match rustix::io::read(&self.pipe, &mut buffer) {
                Ok(count) if count > 0 => self.keep(&buffer[..count]),
                Err(rustix::io::Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Reads available data, as reported by the reactor, but not more than a pipe can hold at a time.
    fn read_available(&self) -> End {
        let mut buffer = [0; BUFFER];
        for _ in 0..READS {
            match self.pipe.try_read(&mut buffer) {
                Ok(0) => return End::Closed,
                Ok(count) => self.keep(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return End::Open,
                Err(_) => return End::Closed,
            }
        }
        End::Open
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.kept.lock();
        kept.keep(self.stream, bytes);
    }
}

#[derive(PartialEq)]
enum End {
    Open,
    Closed,
}
