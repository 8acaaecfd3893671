//! Copies of single files, for containers without `tar`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context as Polling, Poll};
use std::time::Duration;

use anyhow::{Context, bail};
use orlop_streaming::client::ClientStreams;
use orlop_streaming::terminal::{input, output};
use rustix::fs::{AtFlags, Mode, OFlags, fchmod, open, openat, renameat, unlinkat};
use tokio::io::AsyncWrite;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::copied::Copied;
use super::inside::{Found, Inside, pipe};
use super::pack::open_file;
use super::place::split;

/// Shell command that reports that the file is open, and writes it.
const CAT: &str = "{ echo >&3; cat; } 3>&1 > \"$1\"";

/// The same with a temporary name and a rename.
const CAT_THEN_MOVE: &str = "{ echo >&3; cat; } 3>&1 > \"$2\" && exec mv -f -- \"$2\" \"$1\"";

/// Timeout for the first output of a command. The path may be a pipe without a writer: the container can replace the
/// file after it was checked.
const SILENCE: Duration = Duration::from_secs(10);

/// Copies from the container with `cat`. Mode and times are not preserved.
pub(super) async fn from(inside: &Inside, path: &str, here: &Path) -> anyhow::Result<Copied> {
    let (_, Some(name)) = split(path) else {
        bail!("without `tar` only single files can be copied");
    };
    let found = inside.found(path).await?;
    if found == Found::Other {
        bail!("{path} is not a regular file; without `tar` only regular files can be copied");
    }
    let target = if here.is_dir() {
        here.join(name)
    } else {
        here.to_owned()
    };
    let (reader, writer) = pipe()?;
    let streams = ClientStreams {
        stdout: Some(Box::new(output(&writer)?)),
        ..ClientStreams::default()
    };
    drop(writer);
    let temporary = Temporary::beside(&target)?;
    let mut file = temporary.file.try_clone()?;
    let (begins, begun) = oneshot::channel();
    let writing = inside.thread(move || {
        let mut reader = File::from(reader);
        let mut first = [0; 4096];
        let length = reader.read(&mut first)?;
        let _ = begins.send(());
        file.write_all(&first[..length])?;
        Ok(length as u64 + io::copy(&mut reader, &mut file)?)
    });
    let words = ["cat", path];
    let copying = async { tokio::join!(inside.run(&words, streams), writing) };
    let (ended, bytes) = tokio::select! {
        copied = copying => copied,
        () = silence(begun) => {
            bail!(
                "`cat` has sent no data of {path} for {SILENCE:?}; the path may be a pipe instead \
                 of a regular file")
        }
    };
    let ended = ended?;
    if ended.is_missing() {
        bail!("it has no `cat` either, so no command in the container can read the file");
    }
    ended.check(&format!("cannot read {path} in the container"))?;
    let bytes = bytes?;
    temporary
        .into_place()
        .with_context(|| format!("cannot write {}", target.display()))?;
    Ok(Copied {
        files: 1,
        bytes,
        left_out: 0,
    })
}

/// Copies into the container with a shell and `cat`, else with `tee`.
pub(super) async fn to(inside: &Inside, here: &Path, path: &str) -> anyhow::Result<Copied> {
    let landing = inside.landing(here, path).await?;
    let path = landing.path();
    let temporary = landing.temporary();
    // A temporary file is renamed over whatever exists.
    if temporary.is_none() && inside.found(&path).await? == Found::Other {
        bail!("{path} exists and is not a regular file");
    }
    let by_shell: &[&str] = match &temporary {
        Some(temporary) => &["sh", "-c", CAT_THEN_MOVE, "sh", &path, temporary],
        None => &["sh", "-c", CAT, "sh", &path],
    };
    for words in [by_shell, &["tee", "--", &path]] {
        let file = open_file(here).with_context(|| format!("cannot read {}", here.display()))?;
        let (begins, begun) = oneshot::channel();
        let streams = ClientStreams {
            stdin: Some(Box::new(input(&file)?)),
            stdout: Some(Box::new(Heard(Some(begins)))),
            ..ClientStreams::default()
        };
        inside.begin(temporary.clone());
        let ended = tokio::select! {
            ended = inside.run(words, streams) => ended?,
            () = silence(begun) => {
                bail!(
                    "the container did not open {path} within {SILENCE:?}; the path may be a pipe \
                     instead of a regular file")
            }
        };
        if ended.code == 0 {
            inside.finished();
        } else {
            inside.take_back().await;
        }
        if ended.is_missing() {
            continue;
        }
        ended.check(&format!("cannot write {path} in the container"))?;
        return Ok(Copied {
            files: 1,
            bytes: file.metadata()?.len(),
            left_out: 0,
        });
    }
    bail!(
        "it has no `tee` and no `sh` with `cat` either, so no command in the container can write \
         the file"
    )
}

/// Returns if nothing has started within the timeout.
async fn silence(begun: oneshot::Receiver<()>) {
    if timeout(SILENCE, begun).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// A writer that reports the first output of a command. The output itself is discarded.
struct Heard(Option<oneshot::Sender<()>>);

impl AsyncWrite for Heard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Polling<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(begins) = self.0.take() {
            let _ = begins.send(());
        }
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Polling<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Polling<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A temporary file that is removed unless it was renamed into place. A container may replace it in a shared directory
/// at any time; the replacement is neither opened nor changed.
struct Temporary {
    directory: OwnedFd,
    name: OsString,
    own: OsString,
    file: File,
}

impl Temporary {
    fn beside(target: &Path) -> anyhow::Result<Self> {
        let own = target
            .file_name()
            .context("the target path has no file name")?;
        let mut name = OsString::from(format!(".orlop-cp-{}-", std::process::id()));
        name.push(own);
        let parent = match target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let failed = || format!("cannot create a file in {}", parent.display());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(parent, flags, Mode::empty()).with_context(failed)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&directory, &name, flags, Mode::RUSR | Mode::WUSR);
        Ok(Self {
            file: File::from(file.with_context(failed)?),
            directory,
            name,
            own: own.to_owned(),
        })
    }

    fn into_place(self) -> rustix::io::Result<()> {
        fchmod(&self.file, Mode::from_raw_mode(0o644))?;
        renameat(&self.directory, &self.name, &self.directory, &self.own)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = unlinkat(&self.directory, &self.name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn what_takes_the_place_of_the_file_gets_no_mode_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let secret = directory.path().join("secret");
        fs::write(&secret, "mine").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        let here = directory.path().join("here");
        fs::create_dir(&here).unwrap();
        let temporary = Temporary::beside(&here.join("file")).unwrap();
        let written = temporary.file.try_clone().unwrap();
        let place = here.join(&temporary.name);
        fs::remove_file(&place).unwrap();
        symlink(&secret, &place).unwrap();
        temporary.into_place().unwrap();
        let mode = |metadata: fs::Metadata| metadata.permissions().mode() & 0o777;
        assert_eq!(mode(fs::metadata(&secret).unwrap()), 0o600);
        assert_eq!(mode(written.metadata().unwrap()), 0o644);
    }

    #[test]
    fn a_shell_says_that_the_file_is_open_and_then_writes_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("source"), "text").unwrap();
        for (script, place, open) in [
            (CAT, "plain", true),
            (CAT_THEN_MOVE, "moved", true),
            (CAT, "missing/plain", false),
            (CAT_THEN_MOVE, "missing/moved", false),
        ] {
            let output = Command::new("sh")
                .args(["-c", script, "sh"])
                .args([path(place), path(place).with_extension("new")])
                .stdin(File::open(path("source")).unwrap())
                .output()
                .unwrap();
            assert_eq!(output.status.success(), open, "{script}: {output:?}");
            assert_eq!(output.stdout, if open { "\n" } else { "" }.as_bytes());
            let text = fs::read_to_string(path(place)).ok();
            assert_eq!(text.as_deref(), open.then_some("text"), "{script}");
            assert!(!path(place).with_extension("new").exists());
        }
    }

    #[test]
    fn a_file_comes_into_place_though_its_directory_is_moved() {
        let directory = tempfile::tempdir().unwrap();
        let (here, there) = (
            directory.path().join("here"),
            directory.path().join("there"),
        );
        let outside = directory.path().join("outside");
        fs::create_dir(&here).unwrap();
        fs::create_dir(&outside).unwrap();
        let temporary = Temporary::beside(&here.join("file")).unwrap();
        fs::write(outside.join(&temporary.name), "theirs").unwrap();
        fs::rename(&here, &there).unwrap();
        symlink(&outside, &here).unwrap();
        temporary.into_place().unwrap();
        assert!(there.join("file").exists());
        assert!(!outside.join("file").exists());
        drop(Temporary::beside(&there.join("other")).unwrap());
        assert_eq!(fs::read_dir(&there).unwrap().count(), 1);
    }
}
