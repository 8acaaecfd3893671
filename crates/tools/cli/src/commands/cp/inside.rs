//! Runs commands in the container and connects their streams to threads that read and write local files.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::future::BoxFuture;
use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::v1::ExecRequest;
use orlop_streaming::client::ClientStreams;
use orlop_streaming::terminal::{input, output};
use parking_lot::{Mutex, MutexGuard};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio_util::sync::CancellationToken;

use super::copied::{Copied, Keep};
use super::place::split;
use super::{pack, unpack};
use crate::connect::{TransportFlags, whole_url};
use crate::input::select;

/// Size limit of the error output of a command.
const MAX_COMPLAINT: usize = 4096;

/// Time limit for the threads to undo partial work.
const SETTLING: Duration = Duration::from_secs(10);

/// Shell command that reports by its exit code whether a path, and a name in it, are directories.
const LOOK: &str = "if [ -d \"$1\" ]; then [ -d \"${1%/}/$2\" ] && exit 12; exit 11; fi; exit 10";
const INTO_DIRECTORY: i32 = 11;
const MERGE: i32 = 12;

/// Shell command that unpacks under a temporary name, then renames.
const TAR_THEN_MOVE: &str = "tar -C \"$1\" -xf - && exec mv -f -- \"${1%/}/$2\" \"${1%/}/$3\"";

/// Target of a copy in the container.
pub(super) struct Landing {
    pub(super) directory: String,
    pub(super) name: String,
    /// Temporary name until the copy is complete.
    pub(super) staged: Option<String>,
}

impl Landing {
    fn within(&self, name: &str) -> String {
        format!("{}/{name}", self.directory.trim_end_matches('/'))
    }

    /// Returns the final path.
    pub(super) fn path(&self) -> String {
        self.within(&self.name)
    }

    /// Returns the temporary path.
    pub(super) fn temporary(&self) -> Option<String> {
        self.staged.as_deref().map(|staged| self.within(staged))
    }
}

/// A container to run commands in.
pub(super) struct Inside {
    client: RuntimeClient,
    id: String,
    cancelled: CancellationToken,
    /// Temporary path in the container that must be removed on failure.
    begun: Mutex<Option<String>>,
    /// Number of threads that read and write local files.
    at_work: Arc<AtomicUsize>,
    pid: AtomicU32,
}

/// Kind of a path in the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    File,
    /// Neither a regular file nor missing: a directory, or a pipe or device, which may never end.
    Other,
    Nothing,
    /// The container has no command to find out.
    Unknown,
}

/// Result of a command.
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) complaint: String,
}

impl Ended {
    /// Returns whether the container has no such command.
    pub(super) fn is_missing(&self) -> bool {
        // Exit codes of shells and low-level runtimes for a missing command.
        matches!(self.code, 126 | 127) || is_missing(&self.complaint)
    }

    /// Fails unless the command succeeded.
    pub(super) fn check(self, doing: &str) -> anyhow::Result<()> {
        match self.code {
            0 => Ok(()),
            code if self.complaint.is_empty() => {
                bail!("{doing}: the command exited with code {code}")
            }
            _ => bail!("{doing}: {}", self.complaint),
        }
    }
}

fn is_missing(text: &str) -> bool {
    text.contains("executable file not found")
        || text.contains("no such file or directory: unknown")
        || text.contains("No such file or directory (os error 2)")
}

impl Inside {
    pub(super) fn new(client: RuntimeClient, id: String) -> Self {
        Self {
            client,
            id,
            cancelled: CancellationToken::new(),
            begun: Mutex::default(),
            at_work: Arc::default(),
            pid: AtomicU32::new(0),
        }
    }

    /// Cancels running commands.
    pub(super) fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Waits until no thread writes any more.
    pub(super) async fn settled(&self) {
        let waiting = async {
            while self.at_work.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(SETTLING, waiting).await;
    }

    /// Returns the error message for a container without `tar`.
    pub(super) fn without_tar(&self) -> String {
        let place = match self.pid.load(Ordering::Relaxed) {
            0 => String::new(),
            pid => format!(
                " (root can reach the files of the container under /proc/{pid}/root on its node)"
            ),
        };
        format!("the container has no `tar`{place}")
    }

    /// Copies a path from the container; `None` if the container has no `tar`.
    pub(super) async fn unpack(
        &self,
        path: &str,
        target: unpack::Target,
        keep: Keep,
    ) -> anyhow::Result<Option<Copied>> {
        let (directory, name) = split(path);
        let name = name.map_or_else(|| ".".to_owned(), |name| format!("./{name}"));
        let words = ["tar", "-C", &directory, "-cf", "-", &name];
        let (reader, writer) = pipe()?;
        let cancelled = self.cancelled.clone();
        let unpacking = self.thread(move || target.unpack(File::from(reader), keep, &cancelled));
        let streams = ClientStreams {
            stdout: Some(Box::new(output(&writer)?)),
            ..ClientStreams::default()
        };
        drop(writer);
        let running = self.run(&words, streams);
        let (ended, copied) = tokio::join!(running, unpacking);
        let ended = ended?;
        if ended.is_missing() {
            self.look_up_pid().await;
            return Ok(None);
        }
        // The error of the command is the better one, unless it only failed to write to a closed stream.
        match copied {
            Err(error) if ended.code == 0 || ended.complaint.contains("roken pipe") => Err(error),
            copied => {
                ended.check(&format!("cannot read {path} in the container"))?;
                copied.map(Some)
            }
        }
    }

    /// Copies a local file or directory into the container; `None` if the container has no `tar`.
    pub(super) async fn pack(
        &self,
        here: &Path,
        path: &str,
        keep: Keep,
    ) -> anyhow::Result<Option<Copied>> {
        let landing = self.landing(here, path).await?;
        let (directory, name) = (&landing.directory, &landing.name);
        let staged = landing.staged.as_deref();
        let packed_as = staged.unwrap_or(name).to_owned();
        let words = match staged {
            Some(staged) => vec!["sh", "-c", TAR_THEN_MOVE, "sh", directory, staged, name],
            None => vec!["tar", "-C", directory, "-xf", "-"],
        };
        let (reader, writer) = pipe()?;
        let here = here.to_owned();
        let cancelled = self.cancelled.clone();
        let packing = self
            .thread(move || pack::pack(&here, &packed_as, File::from(writer), keep, &cancelled));
        let streams = ClientStreams {
            stdin: Some(Box::new(input(&reader)?)),
            ..ClientStreams::default()
        };
        drop(reader);
        self.begin(landing.temporary());
        let running = self.run(&words, streams);
        let (ended, copied) = tokio::join!(running, packing);
        let ended = ended?;
        if ended.is_missing() {
            self.finished();
            self.look_up_pid().await;
            return Ok(None);
        }
        let whole = ended.code == 0 && copied.is_ok();
        if whole {
            self.finished();
        } else {
            self.take_back().await;
        }
        match copied {
            Err(error) if ended.code == 0 => Err(error),
            copied => {
                ended.check(&format!("cannot write {path} in the container"))?;
                copied.map(Some)
            }
        }
    }

    /// Returns the target of a copy: inside an existing directory, else the name itself. It is written under a
    /// temporary name and renamed, unless it is merged into an existing directory or the container has no shell.
    pub(super) async fn landing(&self, here: &Path, path: &str) -> anyhow::Result<Landing> {
        let own = here.canonicalize()?;
        let own = own
            .file_name()
            .context("cannot copy the local root directory; give a path below /")?;
        let own = own.to_string_lossy().into_owned();
        let looked = ["sh", "-c", LOOK, "sh", path, &own];
        let looked = self.run(&looked, ClientStreams::default()).await?;
        let (is_directory, merges, shell) = match looked.code {
            _ if looked.is_missing() => (self.is_directory(path).await?, true, false),
            INTO_DIRECTORY => (true, false, true),
            MERGE => (true, true, true),
            _ => (path == "/", false, true),
        };
        let (directory, name) = if is_directory {
            (path.to_owned(), own)
        } else if path.ends_with('/') {
            bail!("the container has no directory {path}");
        } else {
            match split(path) {
                (directory, Some(name)) => (directory, name),
                (directory, None) => bail!("the container has no directory {directory}"),
            }
        };
        let staged = (shell && !merges).then(|| format!(".orlop-cp-{}-{name}", std::process::id()));
        Ok(Landing {
            directory,
            name,
            staged,
        })
    }

    async fn is_directory(&self, path: &str) -> anyhow::Result<bool> {
        if path == "/" {
            return Ok(true);
        }
        let words = ["test", "-d", path];
        let ended = self.run(&words, ClientStreams::default()).await?;
        // Without `test`, a trailing slash marks a directory.
        Ok(ended.code == 0 || (ended.is_missing() && path.ends_with('/')))
    }

    /// Returns what is at a path, following links.
    pub(super) async fn found(&self, path: &str) -> anyhow::Result<Found> {
        let test = async |what| {
            self.run(&["test", what, path], ClientStreams::default())
                .await
        };
        let is_file = test("-f").await?;
        if is_file.is_missing() {
            return Ok(Found::Unknown);
        }
        if is_file.code == 0 {
            return Ok(Found::File);
        }
        Ok(match test("-e").await?.code {
            0 => Found::Other,
            _ => Found::Nothing,
        })
    }

    /// Records the temporary path to remove if the copy fails.
    pub(super) fn begin(&self, temporary: Option<String>) {
        *self.begun() = temporary;
    }

    /// Records that the copy is in place.
    pub(super) fn finished(&self) {
        *self.begun() = None;
    }

    /// Removes a partial copy from the container. Failures are ignored, as the original error is reported.
    pub(super) async fn take_back(&self) {
        let Some(temporary) = self.begun().take() else {
            return;
        };
        let words = ["rm", "-rf", "--", &temporary];
        let removing = self.run_uncancelled(&words, ClientStreams::default());
        let removed = match tokio::time::timeout(SETTLING, removing).await {
            Ok(Ok(ended)) => ended.code == 0 || ended.is_missing(),
            _ => false,
        };
        if !removed {
            say!("warning: the temporary file {temporary} remains in the container");
        }
    }

    fn begun(&self) -> MutexGuard<'_, Option<String>> {
        self.begun.lock()
    }

    /// Writes a tar archive of a path to standard output.
    pub(super) async fn archive_out(&self, path: &str) -> anyhow::Result<()> {
        let (directory, name) = split(path);
        let name = name.map_or_else(|| ".".to_owned(), |name| format!("./{name}"));
        let streams = ClientStreams {
            stdout: Some(Box::new(output(std::io::stdout())?)),
            ..ClientStreams::default()
        };
        let words = ["tar", "-C", &directory, "-cf", "-", &name];
        self.ended(self.run(&words, streams).await?, path).await
    }

    /// Unpacks a tar archive from standard input into a directory.
    pub(super) async fn archive_in(&self, path: &str) -> anyhow::Result<()> {
        let streams = ClientStreams {
            stdin: Some(Box::new(input(std::io::stdin())?)),
            ..ClientStreams::default()
        };
        let words = ["tar", "-C", path, "-xf", "-"];
        self.ended(self.run(&words, streams).await?, path).await
    }

    async fn ended(&self, ended: Ended, path: &str) -> anyhow::Result<()> {
        if ended.is_missing() {
            self.look_up_pid().await;
            bail!("{}", self.without_tar());
        }
        ended.check(&format!("`tar` failed in {path} in the container"))
    }

    /// Runs a command with these streams, until it ends or is cancelled.
    pub(super) async fn run(
        &self,
        words: &[&str],
        streams: ClientStreams,
    ) -> anyhow::Result<Ended> {
        tokio::select! {
            ended = self.run_uncancelled(words, streams) => ended,
            () = self.cancelled.cancelled() => bail!("interrupted"),
        }
    }

    /// Runs a command with these streams and keeps its error output.
    async fn run_uncancelled(
        &self,
        words: &[&str],
        mut streams: ClientStreams,
    ) -> anyhow::Result<Ended> {
        let request = ExecRequest {
            container_id: self.id.clone(),
            cmd: words.iter().map(|word| (*word).to_owned()).collect(),
            tty: false,
            stdin: streams.stdin.is_some(),
            // A command without any output must have standard output or standard error.
            stdout: streams.stdout.is_some(),
            stderr: true,
        };
        let (reader, writer) = pipe()?;
        let complaint = self.thread(move || Ok(read_some(File::from(reader))));
        streams.stderr = Some(Box::new(output(&writer)?));
        drop(writer);
        let url = whole_url(&self.client.exec(request).await?);
        let options = TransportFlags::default().options(&url)?;
        let code = orlop_streaming::client::exec(&url, &options, streams).await;
        let complaint = complaint.await?;
        match code {
            Ok(code) => Ok(Ended { code, complaint }),
            // Some runtimes report a missing command as a failed session.
            Err(error) if is_missing(&error.to_string()) => Ok(Ended {
                code: 127,
                complaint: error.to_string(),
            }),
            Err(error) => {
                Err(error).with_context(|| format!("cannot run `{}` in the container", words[0]))
            }
        }
    }

    /// Starts blocking work on its own thread at once.
    pub(super) fn thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, anyhow::Result<T>> {
        struct Working(Arc<AtomicUsize>);
        impl Drop for Working {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.at_work.fetch_add(1, Ordering::SeqCst);
        let working = Working(Arc::clone(&self.at_work));
        let task = tokio::task::spawn_blocking(move || {
            let _working = working;
            work()
        });
        Box::pin(async move {
            task.await
                .context("the connection closed before the copy was complete")?
        })
    }

    async fn look_up_pid(&self) {
        if let Ok(Some(pid)) = select::pid(&self.client, &self.id).await {
            self.pid.store(pid, Ordering::Relaxed);
        }
    }
}

/// Creates a pipe. Both ends close on `execve`.
pub(super) fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// Keeps the start of the output. The rest is read, too, so that the writer does not block.
fn read_some(mut from: impl Read) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let room = MAX_COMPLAINT.saturating_sub(kept.len()).min(read);
        let _ = kept.write_all(&buffer[..room]);
    }
    // The text comes from the container and must not control the terminal.
    String::from_utf8_lossy(&kept)
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
