//! `ExecSync`: runs a command in a container and returns what it printed.

use std::time::Duration;

use orlop_cri_api::v1::{ExecSyncRequest, ExecSyncResponse};
use orlop_cri_server::exec_output::{ExecOutput, OutputStream};
use parking_lot::Mutex;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

use crate::container::command::{self, Session};
use crate::engine::Engine;
use crate::error::{Error, Result};

/// Reads of [`BUFFER`] bytes that empty any pipe: an unprivileged one holds 1 MiB at most.
const READS: usize = 64;
const BUFFER: usize = 16 * 1024;

/// Answers the call.
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
    // The start counts: a probe that is slow to start is slow.
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
    // A start that nobody waits for any more is finished and undone.
    let mut session = by(deadline, start).await.ok_or_else(timed_out)??;

    let each = node.config().containers.exec_output_limit;
    let kept = Mutex::new(ExecOutput::new(each, &node.exec_outputs));
    let out = Capture::new(stdout, OutputStream::Out, &kept);
    let err = Capture::new(stderr, OutputStream::Err, &kept);
    let finished = {
        let run = async {
            tokio::select! {
                // The pipes' ends alone don't end it: the command may have closed its output.
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
    // What the command itself printed is in the pipes by now. What a process that it left
    // behind may still print is not waited for.
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

/// Waits until a deadline, if there is one; none if it has passed.
async fn by<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

/// Collects output; what is too much is read and dropped.
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
            // A command that prints without end must not keep others from their turn.
            tokio::task::yield_now().await;
        }
        std::future::pending().await
    }

    /// Takes what is in the pipe now. The command's end may have been heard of before the
    /// reactor has heard of its last words, so the kernel is asked.
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

    /// Reads what the reactor knows of, and no more than a pipe can hold at a time.
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
