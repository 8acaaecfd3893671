//! Commands in the container, their streams joined to threads that read and write files here.

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

/// Of what a command says about its failure.
const MAX_COMPLAINT: usize = 4096;

/// How long the threads may take to undo what they began.
const SETTLING: Duration = Duration::from_secs(10);

/// Tells what a path and a name in it are.
const LOOK: &str = "if [ -d \"$1\" ]; then [ -d \"${1%/}/$2\" ] && exit 12; exit 11; fi; exit 10";
const INTO_DIRECTORY: i32 = 11;
const MERGE: i32 = 12;

/// Unpacks beside the place, then moves there.
const TAR_THEN_MOVE: &str = "tar -C \"$1\" -xf - && exec mv -f -- \"${1%/}/$2\" \"${1%/}/$3\"";

/// Where in the container a copy goes.
pub(super) struct Landing {
    pub(super) directory: String,
    pub(super) name: String,
    /// What it is called there until it is whole.
    pub(super) staged: Option<String>,
}

impl Landing {
    fn within(&self, name: &str) -> String {
        format!("{}/{name}", self.directory.trim_end_matches('/'))
    }

    /// The whole path.
    pub(super) fn path(&self) -> String {
        self.within(&self.name)
    }

    /// The path until it is whole.
    pub(super) fn temporary(&self) -> Option<String> {
        self.staged.as_deref().map(|staged| self.within(staged))
    }
}

/// A container to run commands in.
pub(super) struct Inside {
    client: RuntimeClient,
    id: String,
    cancelled: CancellationToken,
    /// What in the container is not in its place yet.
    begun: Mutex<Option<String>>,
    /// Threads that read and write files here.
    at_work: Arc<AtomicUsize>,
    pid: AtomicU32,
}

/// What is at a path in the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    File,
    /// A directory, or what may have neither bytes nor an end: a pipe, a device.
    Other,
    Nothing,
    /// The container has no command that tells.
    Unknown,
}

/// How a command ended.
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) complaint: String,
}

impl Ended {
    /// Whether there is no such command in the container.
    pub(super) fn is_missing(&self) -> bool {
        // What shells and the low-level runtimes answer.
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

    /// Ends what is under way.
    pub(super) fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Returns when no thread writes any more.
    pub(super) async fn settled(&self) {
        let waiting = async {
            while self.at_work.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(SETTLING, waiting).await;
    }

    /// What to say where there is no `tar`.
    pub(super) fn without_tar(&self) -> String {
        let place = match self.pid.load(Ordering::Relaxed) {
            0 => String::new(),
            pid => format!(
                " (root can reach the files of the container under /proc/{pid}/root on its node)"
            ),
        };
        format!("the container has no `tar`{place}")
    }

    /// Copies a path to here; `None` if the container has no `tar`.
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
        // Its reason is the better one, unless it only could not go on writing to us.
        match copied {
            Err(error) if ended.code == 0 || ended.complaint.contains("roken pipe") => Err(error),
            copied => {
                ended.check(&format!("cannot read {path} in the container"))?;
                copied.map(Some)
            }
        }
    }

    /// Copies something here into the container; `None` if that has no `tar`.
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

    /// Where a copy goes: into a directory that is there, else to the name itself. It is written
    /// beside its place and moved there whole, unless it is to be merged into a directory that is
    /// there, or the container has no shell.
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
        // Without `test` the name must say it.
        Ok(ended.code == 0 || (ended.is_missing() && path.ends_with('/')))
    }

    /// What is there, as far as links lead.
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

    /// What is to be removed in the container if the copy doesn't get whole.
    pub(super) fn begin(&self, temporary: Option<String>) {
        *self.begun() = temporary;
    }

    /// It is in its place.
    pub(super) fn finished(&self) {
        *self.begun() = None;
    }

    /// Removes in the container what has been begun there. Best effort: that it fails is said by
    /// what made it necessary.
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

    /// An archive of a path, as it comes.
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

    /// An archive into a directory, as it is.
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

    /// Runs a command with these streams, until it ends or all is cancelled.
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

    /// Runs a command with these streams; its error output is kept.
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
            // A command without any output must have one of the two.
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
            // Some runtimes tell of a missing command as of a failed session.
            Err(error) if is_missing(&error.to_string()) => Ok(Ended {
                code: 127,
                complaint: error.to_string(),
            }),
            Err(error) => {
                Err(error).with_context(|| format!("cannot run `{}` in the container", words[0]))
            }
        }
    }

    /// Does what blocks on a thread of its own, beginning at once.
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

/// Both ends close when the program is replaced.
pub(super) fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// The beginning of what comes; the rest is read, too, lest the writer waits.
fn read_some(mut from: impl Read) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let room = MAX_COMPLAINT.saturating_sub(kept.len()).min(read);
        let _ = kept.write_all(&buffer[..room]);
    }
    // It comes from the container: nothing in it may steer a terminal.
    String::from_utf8_lossy(&kept)
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
