//! `ExecSync`: runs a command in a container and returns what it printed.

use std::time::Duration;

use orlop_cri::v1::{ExecSyncRequest, ExecSyncResponse};
use tokio::net::unix::pipe;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::session::{self, Session};

/// Reads of [`BUFFER`] bytes that empty any pipe: an unprivileged one holds 1 MiB at most.
const READS: usize = 16;
const BUFFER: usize = 64 * 1024;

/// Answers the call.
pub async fn call(engine: &Engine, request: ExecSyncRequest) -> Result<ExecSyncResponse> {
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
    let container = engine.running_container(&request.container_id)?;
    let (stdout, stdout_end) = session::output_pipe()?;
    let (stderr, stderr_end) = session::output_pipe()?;
    let io = session::streams(session::no_input()?, stdout_end, stderr_end);
    let mut session = Session::start(engine, &container, &request.cmd, io).await?;

    let cap = engine.config.containers.exec_output_limit;
    let (mut out, mut err) = (Capture::new(stdout, cap), Capture::new(stderr, cap));
    let finished = {
        let run = async {
            tokio::select! {
                // The pipes' ends alone don't end it: the command may have closed its output.
                status = session.wait() => status,
                never = out.follow() => never,
                never = err.follow() => never,
            }
        };
        match limit {
            Some(limit) => tokio::time::timeout(limit, run).await,
            None => Ok(run.await),
        }
    };
    let Ok(status) = finished else {
        session.kill().await;
        let id = &container.id;
        let after = limit.unwrap_or_default();
        let problem = format!("the command in container {id} timed out after {after:?}");
        return Err(Error::Timeout(problem).into());
    };
    let status = status?;
    // What the command itself printed is in the pipes by now. What a process that it left
    // behind may still print is not waited for.
    out.take_rest();
    err.take_rest();
    session.finish().await;
    Ok(ExecSyncResponse {
        stdout: out.bytes,
        stderr: err.bytes,
        exit_code: i32::try_from(status.code).unwrap_or(-1),
    })
}

/// Collects output up to a limit; what exceeds it is read and dropped.
struct Capture {
    pipe: pipe::Receiver,
    bytes: Vec<u8>,
    cap: usize,
    buffer: Vec<u8>,
}

impl Capture {
    fn new(pipe: pipe::Receiver, cap: usize) -> Self {
        Self {
            pipe,
            bytes: Vec::new(),
            cap,
            buffer: vec![0; BUFFER],
        }
    }

    /// Reads for as long as it is polled.
    async fn follow<T>(&mut self) -> T {
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
    fn take_rest(&mut self) {
        for _ in 0..READS {
            match rustix::io::read(&self.pipe, &mut self.buffer) {
                Ok(count) if count > 0 => self.keep(count),
                Err(rustix::io::Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Reads what the reactor knows of, and no more than a pipe can hold at a time.
    fn read_available(&mut self) -> End {
        for _ in 0..READS {
            match self.pipe.try_read(&mut self.buffer) {
                Ok(0) => return End::Closed,
                Ok(count) => self.keep(count),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return End::Open,
                Err(_) => return End::Closed,
            }
        }
        End::Open
    }

    fn keep(&mut self, count: usize) {
        let room = self.cap - self.bytes.len();
        self.bytes
            .extend_from_slice(&self.buffer[..count.min(room)]);
    }
}

#[derive(PartialEq)]
enum End {
    Open,
    Closed,
}
