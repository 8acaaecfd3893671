//! Single files, for containers without `tar`.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use orlop_stream::client::ClientStreams;
use orlop_stream::terminal::{input, output};

use super::Copied;
use super::inside::{Inside, pipe};
use super::place::split;

/// Out of the container by `cat`. Mode and times are not told that way.
pub(super) async fn from(inside: &Inside, path: &str, here: &Path) -> anyhow::Result<Copied> {
    let (_, Some(name)) = split(path) else {
        bail!("only single files can be copied without it");
    };
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
    let writing = inside.thread(move || {
        let file = File::options().write(true).create_new(true).open(&place);
        let mut file = file.with_context(|| format!("cannot create {}", place.display()))?;
        Ok(io::copy(&mut File::from(reader), &mut file)?)
    });
    let words = ["cat", path];
    let (ended, bytes) = tokio::join!(inside.run(&words, streams), writing);
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
    let (directory, name) = inside.target(here, path).await?;
    let path = format!("{}/{name}", directory.trim_end_matches('/'));
    let ways: [&[&str]; 2] = [
        &["sh", "-c", "cat > \"$1\"", "sh", &path],
        &["tee", "--", &path],
    ];
    for words in ways {
        let file = File::open(here).with_context(|| format!("cannot read {}", here.display()))?;
        let streams = ClientStreams {
            stdin: Some(Box::new(input(&file)?)),
            // What `tee` says again is nothing to see.
            stdout: Some(Box::new(tokio::io::sink())),
            ..ClientStreams::default()
        };
        let ended = inside.run(words, streams).await?;
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
