//! Calls of the OCI runtime.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::arguments::{Inner, Settings};
use crate::error::{Error, Result};
use crate::launch;

/// Timeout of a call; it includes the start of a virtual machine.
const LIMIT: Duration = Duration::from_secs(30);
/// Maximum size of the output, which is a state or an error message.
const LONGEST_ANSWER: u64 = 1 << 20;
const LONGEST_COMPLAINT: u64 = 16 * 1024;

#[derive(Clone, Debug)]
pub(super) struct Runtime {
    program: PathBuf,
    args: Vec<OsString>,
    /// The directory of the runtime's state.
    pub(super) root: PathBuf,
}

impl Runtime {
    pub(super) fn new(settings: &Settings, inner: &Inner) -> Self {
        let mut args = inner.args.clone();
        if settings.systemd_cgroup {
            args.push("--systemd-cgroup".into());
        }
        Self {
            program: inner.program.clone(),
            args,
            root: settings.root.join("runtime"),
        }
    }

    pub(super) fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    pub(super) fn command(&self, words: &[OsString]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--root")
            .arg(&self.root)
            .args(&self.args)
            .args(words);
        command
    }

    /// Runs a call and ignores its output unless it fails.
    pub(super) fn call(&self, words: &[OsString]) -> Result<()> {
        self.answer(words).map(drop)
    }

    /// Runs a call and returns its output. Unnamed files receive output and errors, because background processes may
    /// keep them open.
    pub(super) fn answer(&self, words: &[OsString]) -> Result<String> {
        let failed = |source| self.failed_to_run(source);
        let (answer, complaints) = (unnamed().map_err(failed)?, unnamed().map_err(failed)?);
        let child = self
            .command(words)
            .stdin(Stdio::null())
            .stdout(answer.try_clone().map_err(failed)?)
            .stderr(complaints.try_clone().map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let doing = words.first().map(|word| word.to_string_lossy());
        self.finish(child, &doing.unwrap_or_default(), || {
            from_start(&complaints, LONGEST_COMPLAINT)
        })?;
        Ok(String::from_utf8_lossy(&from_start(&answer, LONGEST_ANSWER)).into_owned())
    }

    /// Returns the features that the runtime reports; older ones do not support the query.
    pub(super) fn features(&self) -> Option<Value> {
        let told = self.answer(&["features".into()]).ok()?;
        let told: Value = serde_json::from_str(&told).ok()?;
        told.is_object().then_some(told)
    }

    pub(super) fn kill(&self, id: &str, signal: &str, all: bool) -> Result<()> {
        let mut words: Vec<OsString> = vec!["kill".into()];
        words.extend(all.then(|| "--all".into()));
        words.extend([id.into(), signal.into()]);
        self.call(&words)
    }

    /// Kills and deletes a container; it is not an error if it is missing.
    pub(super) fn delete(&self, id: &str) -> Result<()> {
        if self.files_of(id).is_empty() {
            return launch::end_orphans(&self.root, id);
        }
        let deleted = self.call(&["delete", "--force", id].map(Into::into));
        if deleted.is_err() && !self.files_of(id).is_empty() {
            return deleted;
        }
        // If the runtime was killed while creating the container, it leaves files that it later does not know.
        for path in self.files_of(id) {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::file("removing", &path)(error));
                }
                _ => {}
            }
        }
        launch::end_orphans(&self.root, id)
    }

    /// Lists its state files of a container, whose names start with the id.
    fn files_of(&self, id: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.root).into_iter().flatten();
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let about = format!("{id}_");
        let names = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(&about))
        };
        paths.filter(names).collect()
    }

    /// Waits for the end of a call; on failure, `complaints` contains the reason.
    pub(super) fn finish(
        &self,
        mut child: Child,
        doing: &str,
        complaints: impl FnOnce() -> Vec<u8>,
    ) -> Result<()> {
        let doing = format!("{} {doing}", self.name());
        let end = Instant::now() + LIMIT;
        let mut pause = Duration::from_millis(1);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < end => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(5));
                }
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    let problem = format!("{doing} timed out after {LIMIT:?}");
                    return Err(Error::Failed(problem));
                }
            }
        };
        if status.success() {
            return Ok(());
        }
        let said = complaints();
        let said = String::from_utf8_lossy(&said);
        let said = said.trim();
        Err(Error::Failed(if said.is_empty() {
            format!("{doing} failed ({status})")
        } else {
            format!("{doing}: {said}")
        }))
    }

    pub(super) fn failed_to_run(&self, source: std::io::Error) -> Error {
        Error::Io {
            doing: format!("executing {}", self.program.display()),
            source,
        }
    }
}

fn unnamed() -> std::io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    Ok(File::from(rustix::fs::memfd_create("answer", flags)?))
}

fn from_start(file: &File, most: u64) -> Vec<u8> {
    let size = file.metadata().map_or(0, |about| about.len()).min(most);
    let mut bytes = vec![0; size as usize];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}

/// Returns a path in `dir` that fits into a socket address, however long the path of `dir` is.
pub(super) fn short(dir: &File, name: &str) -> PathBuf {
    Path::new("/proc/self/fd")
        .join(dir.as_raw_fd().to_string())
        .join(name)
}
