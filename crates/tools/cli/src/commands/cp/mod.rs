//! `cp`: copies files to and from containers with commands that run in them: `tar` if the container has it, else `cat`
//! for single files.

mod copied;
mod inside;
mod pack;
mod place;
mod single;
mod unpack;

use std::path::Path;

use anyhow::{Context, bail};

use crate::connect::Session;
use crate::input::select;
use crate::terminal::interrupt;
use copied::{Copied, Keep};
use inside::Inside;
use place::Place;

/// Arguments of `cp`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Source: CONTAINER:PATH or a local path; - reads a tar archive from standard input
    #[arg(value_name = "SOURCE|CONTAINER")]
    source: Place,

    /// Target: CONTAINER:PATH or a local path; - writes a tar archive to standard output. If the
    /// target is an existing directory, the files are copied into it; otherwise they are created
    /// with this name
    #[arg(value_name = "TARGET|CONTAINER")]
    target: Place,

    /// Preserve user and group ownership and the set-ID bits
    #[arg(short, long)]
    archive: bool,

    /// Do not print the number of copied files
    #[arg(short, long)]
    quiet: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let client = session.patient_runtime(None).await?;
    let keep = if args.archive {
        Keep::Owners
    } else {
        Keep::Plain
    };
    let (word, path, other, out) = match (&args.source, &args.target) {
        (Place::Container(..), Place::Container(..)) => {
            bail!(
                "cannot copy from container to container, because one of the two paths must be \
                 local; copy in two steps"
            )
        }
        (Place::Container(word, path), other) => (word, path, other, true),
        (other, Place::Container(word, path)) => (word, path, other, false),
        _ => bail!("neither path is in a container; write one of them as CONTAINER:PATH"),
    };
    if !path.starts_with('/') {
        bail!("the path in the container must be absolute; write {word}:/{path}");
    }
    let id = select::container(&client, word).await?;
    let inside = Inside::new(client, id);
    let work = async {
        match (other, out) {
            (Place::Stream, true) => inside.archive_out(path).await.map(|()| None),
            (Place::Stream, false) => inside.archive_in(path).await.map(|()| None),
            (Place::Here(here), true) => from(&inside, path, here, keep).await.map(Some),
            (Place::Here(here), false) => to(&inside, here, path, keep).await.map(Some),
            (Place::Container(..), _) => Ok(None),
        }
    };
    let copied = tokio::select! {
        copied = work => {
            if copied.is_err() {
                inside.take_back().await;
            }
            copied?
        }
        _ = interrupt::received() => {
            // The threads that write also undo partial work.
            inside.cancel();
            inside.settled().await;
            inside.take_back().await;
            bail!("interrupted")
        }
    };
    if let Some(copied) = copied.filter(|_| !args.quiet) {
        let size = crate::output::short_bytes(copied.bytes);
        let files = if copied.files == 1 { "file" } else { "files" };
        say!("copied {} {files}, {size}", copied.files);
        if copied.left_out > 0 {
            bail!("cannot copy {} of the files", copied.left_out);
        }
    }
    Ok(())
}

/// Copies from the container.
async fn from(inside: &Inside, path: &str, here: &Path, keep: Keep) -> anyhow::Result<Copied> {
    let target = unpack::Target::new(path, here)?;
    match inside.unpack(path, target, keep).await? {
        Some(copied) => Ok(copied),
        None => single::from(inside, path, here)
            .await
            .with_context(|| inside.without_tar()),
    }
}

/// Copies into the container.
async fn to(inside: &Inside, here: &Path, path: &str, keep: Keep) -> anyhow::Result<Copied> {
    let metadata = std::fs::symlink_metadata(here)
        .with_context(|| format!("cannot read {}", here.display()))?;
    match inside.pack(here, path, keep).await? {
        Some(copied) => Ok(copied),
        None if metadata.is_file() => single::to(inside, here, path)
            .await
            .with_context(|| inside.without_tar()),
        None => bail!(
            "{}; without `tar` only single files can be copied",
            inside.without_tar()
        ),
    }
}
