//! Runtime commands that create no process in a pod; called without the keeper.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use orlop_pool::{NoThread, started};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::call::WAY_OUT_OF_ITS_OWN;
use super::log::{explanation, is_want};
use super::oci::OciRuntime;
use crate::blocking::blocking;
use crate::error::{Error, Result, RuntimeError, RuntimeFault};
use orlop_oci_types::Features;

/// Limit of the output that is read from a runtime.
const OUTPUT_MAX: u64 = 4 << 20;
/// Limit of the log that is read, from its end.
const LOG_MAX: u64 = 64 << 10;

/// Finds the CRIU program, in the directories where runtimes look for it.
pub fn criu() -> Option<PathBuf> {
    USUAL_PATH
        .split(':')
        .map(|dir| Path::new(dir).join("criu"))
        .find(|program| program.is_file())
}

/// The state of a container, as reported by its runtime.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeState {
    /// ID of the container.
    pub id: String,
    /// Status: `created`, `running`, `paused`, `stopped` …
    pub status: String,
    /// Process ID of its first process; 0 if there is none.
    #[serde(default)]
    pub pid: u32,
    /// Path of its bundle.
    #[serde(default)]
    pub bundle: PathBuf,
    /// Annotations of the container.
    #[serde(default)]
    pub annotations: HashMap<String, String>,
}

/// Options of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// Directory for the checkpoint images.
    pub image_path: PathBuf,
    /// Directory for the log files.
    pub work_path: PathBuf,
    /// Whether the container continues to run.
    pub leave_running: bool,
    /// Whether open TCP connections are included.
    pub tcp_established: bool,
    /// Whether file locks are included.
    pub file_locks: bool,
}

/// The `PATH` of runtimes.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl OciRuntime {
    /// Reads the runtime's features. A runtime too old to report them gives [`Features::default`].
    pub async fn features(&self, limit: Duration) -> Result<Features> {
        let output = match self.run(&["features".as_ref()], limit).await {
            Ok(output) => output,
            Err(Error::Runtime(error)) if error.fault == RuntimeFault::Failed => {
                return Ok(Features::default());
            }
            Err(error) => return Err(error),
        };
        serde_json::from_slice(&output).map_err(|error| self.rubbish("features", &output, &error))
    }

    /// Returns the first line of the runtime's version output.
    pub async fn version(&self, limit: Duration) -> Result<String> {
        let output = self.run(&["--version".as_ref()], limit).await?;
        let text = String::from_utf8_lossy(&output);
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// Reads a container's state.
    pub async fn state(&self, id: &str, limit: Duration) -> Result<RuntimeState> {
        let output = self.run(&["state".as_ref(), id.as_ref()], limit).await?;
        serde_json::from_slice(&output).map_err(|error| self.rubbish("state", &output, &error))
    }

    /// Lists a container's process IDs on the host.
    pub async fn ps(&self, id: &str, limit: Duration) -> Result<Vec<u32>> {
        let command = ["ps", "--format", "json", id].map(OsStr::new);
        let output = self.run(&command, limit).await?;
        let pids: Option<Vec<u32>> =
            serde_json::from_slice(&output).map_err(|error| self.rubbish("ps", &output, &error))?;
        Ok(pids.unwrap_or_default())
    }

    /// Sets a container's resources to those in a file, an OCI `linux.resources` object.
    pub async fn update(&self, id: &str, resources: &Path, limit: Duration) -> Result<()> {
        let command: [&OsStr; 4] = [
            "update".as_ref(),
            "--resources".as_ref(),
            resources.as_ref(),
            id.as_ref(),
        ];
        self.run(&command, limit).await.map(drop)
    }

    /// Freezes a container.
    pub async fn pause(&self, id: &str, limit: Duration) -> Result<()> {
        let command = ["pause", id].map(OsStr::new);
        self.run(&command, limit).await.map(drop)
    }

    /// Resumes a frozen container.
    pub async fn resume(&self, id: &str, limit: Duration) -> Result<()> {
        let command = ["resume", id].map(OsStr::new);
        self.run(&command, limit).await.map(drop)
    }

    /// Writes a checkpoint of a container, which the runtime does with CRIU.
    pub async fn checkpoint(
        &self,
        id: &str,
        options: &CheckpointOptions,
        limit: Duration,
    ) -> Result<()> {
        let mut command: Vec<&OsStr> = vec!["checkpoint".as_ref()];
        command.extend(["--image-path".as_ref(), options.image_path.as_os_str()]);
        command.extend(["--work-path".as_ref(), options.work_path.as_os_str()]);
        for (wanted, flag) in [
            (options.leave_running, "--leave-running"),
            (options.tcp_established, "--tcp-established"),
            (options.file_locks, "--file-locks"),
        ] {
            if wanted {
                command.push(flag.as_ref());
            }
        }
        command.push(id.as_ref());
        self.run(&command, limit).await.map(drop)
    }

    /// Deletes a container whose keeper is dead; kills it if it still runs.
    pub async fn delete(&self, id: &str, limit: Duration) -> Result<()> {
        let command = ["delete", "--force", id].map(OsStr::new);
        self.run(&command, limit).await.map(drop)
    }

    /// Stops the shared sandbox of a pod whose runtime is a shim.
    pub async fn end_pod(&self, pod: &str, limit: Duration) -> Result<String> {
        let command = ["end-pod", pod].map(OsStr::new);
        let said = self.run(&command, limit).await?;
        Ok(String::from_utf8_lossy(&said).trim().to_owned())
    }

    /// Runs a command and returns its output.
    pub(super) async fn run(&self, command: &[&OsStr], limit: Duration) -> Result<Vec<u8>> {
        // Logging to standard error avoids a temporary file.
        let child = self
            .command(Path::new("/dev/stderr"), command)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = started(child).map_err(|source| self.unstarted(command, &source))?;
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        let finish = async {
            let (output, log) = tokio::join!(read_all(stdout), read_all(stderr));
            (child.wait().await, output, log)
        };
        match timeout(limit, finish).await {
            Ok((Ok(status), output, _)) if status.success() => Ok(output),
            Ok((status, output, log)) => Err(self.failed(command, status, &log, &output)),
            Err(_) => Err(self.late(command, limit)),
        }
    }

    /// Runs a command whose container keeps the standard streams open; the log is a file.
    pub(super) async fn run_apart(
        &self,
        log: &Path,
        command: &[&OsStr],
        limit: Duration,
    ) -> Result<()> {
        let child = self
            .command(log, command)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = started(child).map_err(|source| self.unstarted(command, &source))?;
        match timeout(limit, child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(status) => {
                let log = tail_of(log).await;
                Err(self.failed(command, status, &log, b""))
            }
            Err(_) => Err(self.late(command, limit)),
        }
    }

    fn command(&self, log: &Path, command: &[&OsStr]) -> Command {
        let argv = self.argv(log, command);
        let mut command = Command::new(&self.program);
        command
            .args(&argv[1..])
            .current_dir("/")
            // As from a keeper: a container must not get the daemon's environment.
            .env_clear()
            .env("PATH", USUAL_PATH)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    fn unstarted(&self, command: &[&OsStr], source: &io::Error) -> Error {
        let detail = format!("executing {}: {source}", self.program.display());
        let fault = if NoThread::is_cause(source) {
            RuntimeFault::Exhausted
        } else {
            RuntimeFault::Missing
        };
        self.error(command, fault, detail)
    }

    fn late(&self, command: &[&OsStr], limit: Duration) -> Error {
        let detail = format!("it did not finish within {limit:?} and was killed");
        self.error(command, RuntimeFault::TimedOut, detail)
    }

    fn failed(
        &self,
        command: &[&OsStr],
        status: io::Result<ExitStatus>,
        log: &[u8],
        output: &[u8],
    ) -> Error {
        let log = String::from_utf8_lossy(log);
        let output = String::from_utf8_lossy(output);
        let ended = match status {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let detail = explanation(&log, &output).unwrap_or(ended);
        if is_want(&log, &output, &detail) {
            let detail = format!("{detail}; {WAY_OUT_OF_ITS_OWN}");
            return self.error(command, RuntimeFault::Exhausted, detail);
        }
        self.error(command, RuntimeFault::Failed, detail)
    }

    fn error(&self, command: &[&OsStr], fault: RuntimeFault, detail: String) -> Error {
        let action = command.first().map(|action| action.to_string_lossy());
        Error::Runtime(RuntimeError {
            runtime: self.name.clone(),
            action: action
                .unwrap_or_default()
                .trim_start_matches('-')
                .to_owned(),
            fault,
            detail,
        })
    }

    fn rubbish(&self, action: &str, output: &[u8], why: &serde_json::Error) -> Error {
        let start: String = String::from_utf8_lossy(output)
            .chars()
            .take(100)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        Error::Runtime(RuntimeError {
            runtime: self.name.clone(),
            action: action.to_owned(),
            fault: RuntimeFault::Failed,
            detail: format!("cannot parse its output ({why}): {start:?}"),
        })
    }
}

/// Reads the end of a runtime's log, which has the reason of a failure.
async fn tail_of(log: &Path) -> Vec<u8> {
    let log = log.to_owned();
    let read = blocking(move || orlop_fs::read_tail(log, LOG_MAX)).await;
    // The exit status is reported even without the log.
    read.unwrap_or_default()
}

/// Reads a stream up to the limit. The rest is read and dropped, so that the writer does not block.
#[expect(clippy::disallowed_methods, reason = "a limit is what it has here")]
async fn read_all(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        let mut head = (&mut stream).take(OUTPUT_MAX);
        // After an error, keep the data read so far.
        if head.read_to_end(&mut bytes).await.is_ok() {
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
    }
    bytes
}
