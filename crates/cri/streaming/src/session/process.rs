//! Copying between a session and the file descriptors of a process.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::termios::{Winsize, tcsetwinsize};
use tokio_util::sync::CancellationToken;

use super::backend::Session;
use super::resize::{Resizes, TerminalSize};
use crate::copying::Output;
use crate::flow::Input;

/// How long the detection of a vanished client takes.
const VANISHING: Duration = Duration::from_secs(1);

/// This side's ends of a process's standard streams. For a stream that the client did not request, the process should
/// get `/dev/null`, and the field is `None`.
#[derive(Debug, Default)]
pub struct Pipes {
    /// The end for writing.
    pub stdin: Option<OwnedFd>,
    /// The end for reading.
    pub stdout: Option<OwnedFd>,
    /// The end for reading.
    pub stderr: Option<OwnedFd>,
}

/// The reason why a session ended before its process.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client disconnected, or the server is shutting down.
    #[error("the client disconnected before the process exited")]
    Gone,
}

impl Session {
    /// Copies between the client and a process's pipes until `exit` completes and all output of the process is sent.
    ///
    /// The end of the client's input closes the pipe. Output that descendants keep open is not waited for. The
    /// descriptors become non-blocking, so they must not be shared with the process.
    pub async fn serve_pipes<T>(
        self,
        pipes: Pipes,
        exit: impl Future<Output = T>,
    ) -> Result<T, ServeError> {
        let Self {
            stdin,
            stdout,
            stderr,
            resizes,
            gone,
        } = self;
        drop(resizes);
        let exited = CancellationToken::new();
        let feed = feed(stdin, pipes.stdin);
        let work = async {
            let exit = async {
                let result = exit.await;
                exited.cancel();
                result
            };
            let outputs = async {
                tokio::join!(
                    drain(stdout, pipes.stdout, &exited),
                    drain(stderr, pipes.stderr, &exited),
                );
            };
            tokio::join!(exit, outputs).0
        };
        alongside(work, feed, &gone).await
    }

    /// Copies between the client and a process with a terminal, like [`Session::serve_pipes`]; `master` is the pty
    /// master. The client's terminal sizes are applied, including the first.
    pub async fn serve_terminal<T>(
        self,
        master: OwnedFd,
        exit: impl Future<Output = T>,
    ) -> Result<T, ServeError> {
        let Self {
            stdin,
            stdout,
            stderr,
            resizes,
            gone,
        } = self;
        drop(stderr);
        let exited = CancellationToken::new();
        let side = async {
            tokio::join!(
                async {
                    if let Some(mut stdin) = stdin {
                        end_of_copy("input", stdin.pump_to(&master).await);
                    }
                },
                follow_size(resizes, &master),
            );
        };
        let work = async {
            let exit = async {
                let result = exit.await;
                exited.cancel();
                result
            };
            let output = async {
                if let Some(mut stdout) = stdout {
                    end_of_copy("output", stdout.pump_from(&master, &exited).await);
                }
            };
            tokio::join!(exit, output).0
        };
        alongside(work, side, &gone).await
    }
}

/// Sets the terminal size through the pty master.
pub(crate) fn set_size(master: impl AsFd, size: TerminalSize) -> io::Result<()> {
    let size = Winsize {
        ws_row: size.height,
        ws_col: size.width,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(master, size)?)
}

/// Runs `side` concurrently until `work` completes.
async fn alongside<T>(
    work: impl Future<Output = T>,
    side: impl Future<Output = ()>,
    gone: &CancellationToken,
) -> Result<T, ServeError> {
    let endless_side = async {
        side.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        result = work => Ok(result),
        () = gone.cancelled() => Err(ServeError::Gone),
        () = endless_side => Err(ServeError::Gone),
    }
}

async fn feed(stdin: Option<Input>, pipe: Option<OwnedFd>) {
    // The pipe is closed at the end of this block, which is the process's end of input.
    if let (Some(mut stdin), Some(pipe)) = (stdin, pipe) {
        let result = stdin.pump_to(&pipe).await;
        let vanished =
            matches!(&result, Err(error) if error.kind() == io::ErrorKind::ConnectionReset);
        end_of_copy("input", result);
        if vanished {
            // Input ended uncleanly: what came may be half of a file. If the client has vanished, the session ends
            // before the process could take the input for complete.
            tokio::time::sleep(VANISHING).await;
        }
    }
}

async fn drain(output: Option<Output>, pipe: Option<OwnedFd>, exited: &CancellationToken) {
    if let (Some(mut output), Some(pipe)) = (output, pipe) {
        end_of_copy("output", output.pump_from(&pipe, exited).await);
    }
}

async fn follow_size(resizes: Option<Resizes>, master: &OwnedFd) {
    let Some(mut resizes) = resizes else { return };
    while let Some(size) = resizes.next().await {
        if let Err(error) = set_size(master, size) {
            tracing::debug!(%error, ?size, "cannot resize a session's terminal");
        }
    }
}

fn end_of_copy(what: &'static str, result: io::Result<u64>) {
    if let Err(error) = result {
        tracing::debug!(%error, "stopped copying the {what} of a session before its end");
    }
}
