//! Single files, for containers without `tar`.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use orlop_stream::client::ClientStreams;
use orlop_stream::terminal::{input, output};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Copied;
use super::inside::{Found, Inside, pipe};
use super::pack::open_file;
use super::place::split;

/// Writes beside the place, then moves there.
const CAT_THEN_MOVE: &str = "cat > \"$2\" && exec mv -f -- \"$2\" \"$1\"";

/// How long `cat` may send nothing of what may be a pipe that nobody writes to.
const SILENCE: Duration = Duration::from_secs(10);

/// Out of the container by `cat`. Mode and times are not told that way.
pub(super) async fn from(inside: &Inside, path: &str, here: &Path) -> anyhow::Result<Copied> {
    let (_, Some(name)) = split(path) else {
        bail!("only single files can be copied without it");
    };
    let found = inside.found(path).await?;
    if found == Found::Other {
        bail!("{path} is no file, and only files can be copied without it");
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
    let place = temporary.0.clone();
    let (begins, begun) = oneshot::channel();
    let writing = inside.thread(move || {
        let file = File::options().write(true).create_new(true).open(&place);
        let mut file = file.with_context(|| format!("cannot create {}", place.display()))?;
        let mut reader = File::from(reader);
        let mut first = [0; 4096];
        let length = reader.read(&mut first)?;
        let _ = begins.send(());
        file.write_all(&first[..length])?;
        Ok(length as u64 + io::copy(&mut reader, &mut file)?)
    });
    let words = ["cat", path];
    let copying = async { tokio::join!(inside.run(&words, streams), writing) };
    let silence = async {
        if found != Found::Unknown || timeout(SILENCE, begun).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let (ended, bytes) = tokio::select! {
        copied = copying => copied,
        () = silence => {
            bail!("`cat` has sent nothing of {path} for {SILENCE:?}: it may be a pipe, and not a file")
        }
    };
    let ended = ended?;
    if ended.is_missing() {
        bail!("nor has it `cat`: there is no way through a command in it");
    }
    ended.check(&format!("reading {path} in the container"))?;
    let bytes = bytes?;
    fs::set_permissions(&temporary.0, Permissions::from_mode(0o644))?;
    fs::rename(&temporary.0, &target)
        .with_context(|| format!("cannot write {}", target.display()))?;
    Ok(Copied {
        files: 1,
        bytes,
        left_out: 0,
    })
}

/// Into the container by a shell's `cat`, else by `tee`.
pub(super) async fn to(inside: &Inside, here: &Path, path: &str) -> anyhow::Result<Copied> {
    let landing = inside.landing(here, path).await?;
    let path = landing.path();
    let temporary = landing.temporary();
    // What is written beside its place takes the place of whatever is there.
    if temporary.is_none() && inside.found(&path).await? == Found::Other {
        bail!("{path} is there and no file");
    }
    let by_shell: &[&str] = match &temporary {
        Some(temporary) => &["sh", "-c", CAT_THEN_MOVE, "sh", &path, temporary],
        None => &["sh", "-c", "cat > \"$1\"", "sh", &path],
    };
    for words in [by_shell, &["tee", "--", &path]] {
        let file = open_file(here).with_context(|| format!("cannot read {}", here.display()))?;
        let streams = ClientStreams {
            stdin: Some(Box::new(input(&file)?)),
            // What `tee` says again is nothing to see.
            stdout: Some(Box::new(tokio::io::sink())),
            ..ClientStreams::default()
        };
        inside.begin(temporary.clone());
        let ended = inside.run(words, streams).await?;
        if ended.code == 0 {
            inside.finished();
        } else {
            inside.take_back().await;
        }
        if ended.is_missing() {
            continue;
        }
        ended.check(&format!("writing {path} in the container"))?;
        return Ok(Copied {
            files: 1,
            bytes: file.metadata()?.len(),
            left_out: 0,
        });
    }
    bail!("nor has it `sh` with `cat`, or `tee`: there is no way through a command in it")
}

/// A file that is gone unless it was moved to its place.
struct Temporary(PathBuf);

impl Temporary {
    fn beside(target: &Path) -> anyhow::Result<Self> {
        let name = target.file_name().context("the target has no name")?;
        let name = format!(
            ".orlop-cp-{}-{}",
            std::process::id(),
            name.to_string_lossy()
        );
        Ok(Self(target.with_file_name(name)))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
