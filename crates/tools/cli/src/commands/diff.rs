//! `diff`: lists the changes of a container to its root filesystem.

use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::extensions::{Change, ChangeKind, ListChangesRequest, ListChangesResponse};
use orlop_cri_api::v1::ContainerState;
use orlop_fs::{Mountinfo, unescape};
use serde_json::{Value, json};
use tonic::Code;

use crate::connect::{Session, refused};
use crate::input::select;
use crate::output::{self, Format, FormatFlags, Style, bytes, stdout};

/// Arguments of `diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name or ID of the container
    #[arg(value_name = "CONTAINER")]
    container: String,

    /// Hide directories that are listed only because they contain changes
    #[arg(short, long)]
    files: bool,

    /// Show the sizes of files
    #[arg(short, long)]
    size: bool,

    #[command(flatten)]
    format: FormatFlags,
}

/// Mask of the file type in a mode (inode(7)).
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_table()?;
    let runtime = session.runtime().await?;
    let id = select::container(&runtime, &args.container).await?;
    let mut printer = Printer::new(&args, &format);
    let mut client = session.patient_connection().await?.orlop_containers();
    let request = ListChangesRequest {
        container_id: id.clone(),
    };
    match client.list_changes(request).await {
        Ok(answer) => {
            let mut answer = answer.into_inner();
            while let Some(ListChangesResponse { changes }) =
                answer.message().await.map_err(refused)?
            {
                for change in changes {
                    printer.take(&change)?;
                }
            }
        }
        Err(status) if status.code() == Code::Unimplemented => {
            foreign(&runtime, &id, &mut printer).await?;
        }
        Err(status) => return Err(refused(status)),
    }
    printer.finish(&format)
}

/// Shows the changes with another runtime: reads the overlay mount of a container that runs on this machine.
async fn foreign(client: &RuntimeClient, id: &str, printer: &mut Printer) -> anyhow::Result<()> {
    let why = "the CRI does not report the changes of a container, and this runtime has no service for it";
    let status = client.container_status(id, false).await?;
    let state = status.status.unwrap_or_default().state();
    if state != ContainerState::ContainerRunning {
        bail!(
            "{why}; the mounts of the container can be read only while it runs, and it is not running"
        );
    }
    let Some(pid) = select::pid(client, id).await? else {
        bail!("{why}; the runtime does not report the PID of the container either");
    };
    let mounts = Mountinfo::of(pid).with_context(|| {
        format!(
            "{why}; process {pid} of the container cannot be read from here; run this command on \
             its node, as root"
        )
    })?;
    let overlay = Overlay::of_root(&mounts).with_context(|| why.to_owned())?;
    let walked = tokio::task::spawn_blocking(move || {
        let mut found = Vec::new();
        orlop_fs::changes(&overlay.upper, &overlay.lower, &mut |change| {
            found.push(change);
            true
        })
        .map(|()| found)
    });
    let found = walked
        .await
        .context("the comparison of the layers failed")?;
    for change in found.context("cannot compare the layers; run this command as root")? {
        printer.take(&Change {
            path: change.path.as_os_str().as_bytes().to_vec(),
            kind: match change.kind {
                orlop_fs::ChangeKind::Modified => ChangeKind::Modified,
                orlop_fs::ChangeKind::Added => ChangeKind::Added,
                orlop_fs::ChangeKind::Deleted => ChangeKind::Deleted,
            }
            .into(),
            mode: change.mode,
            size: change.size,
        })?;
    }
    Ok(())
}

/// The layers of an overlay mount.
#[derive(Debug, PartialEq, Eq)]
struct Overlay {
    upper: PathBuf,
    lower: Vec<PathBuf>,
}

impl Overlay {
    /// Finds the layers of the root in the mountinfo of a process (proc(5)).
    fn of_root(table: &Mountinfo) -> anyhow::Result<Self> {
        // Of several mounts at one path, the last is on top.
        let root = table
            .mounts()
            .rfind(|mount| mount.point() == Path::new("/"))
            .context("its process has no root mount")?;
        let kind = root.kind();
        if kind != "overlay" {
            bail!(
                "its root filesystem is {kind} instead of an overlay, so its changes cannot be \
                 distinguished from the image"
            );
        }
        let mut upper = None;
        let mut lower = Vec::new();
        for option in root.options() {
            if let Some(path) = option.strip_prefix(b"upperdir=") {
                upper = Some(unescape(path));
            } else if let Some(path) = option.strip_prefix(b"lowerdir+=") {
                lower.push(unescape(path));
            } else if let Some(paths) = option.strip_prefix(b"lowerdir=") {
                lower.extend(paths.split(|byte| *byte == b':').map(unescape));
            }
        }
        let upper = upper.context("its root filesystem is read-only")?;
        if lower.iter().chain([&upper]).any(|path| !path.is_absolute()) {
            bail!(
                "its overlay mount specifies layers relative to a directory that only the runtime \
                 knows"
            );
        }
        Ok(Self { upper, lower })
    }
}

/// Prints changes as they arrive; in formats for programs, all at the end.
struct Printer {
    table: bool,
    files: bool,
    size: bool,
    style: Style,
    values: Vec<Value>,
}

impl Printer {
    fn new(args: &Args, format: &Format) -> Self {
        Self {
            table: matches!(format, Format::Table),
            files: args.files,
            size: args.size,
            style: Style::of(&std::io::stdout()),
            values: Vec::new(),
        }
    }

    fn take(&mut self, change: &Change) -> anyhow::Result<()> {
        let directory = change.mode & TYPE == DIRECTORY;
        if self.files && directory && change.kind() == ChangeKind::Modified {
            return Ok(());
        }
        let (letter, word, colour) = match change.kind() {
            ChangeKind::Modified => ('C', "modified", 33),
            ChangeKind::Added => ('A', "added", 32),
            ChangeKind::Deleted => ('D', "deleted", 31),
        };
        let path = String::from_utf8_lossy(&change.path);
        if !self.table {
            self.values.push(json!({
                "path": path,
                "kind": word,
                "mode": format!("{:o}", change.mode),
                "size": change.size,
            }));
            return Ok(());
        }
        // The container chose the name: control characters are escaped.
        let path: String = path
            .chars()
            .flat_map(|c| {
                let escaped = c.is_control();
                let shown = escaped.then(|| c.escape_default());
                shown.into_iter().flatten().chain((!escaped).then_some(c))
            })
            .collect();
        let mut out = stdout();
        write!(
            out,
            "{} {path}",
            self.style.colour(colour, &letter.to_string())
        )?;
        if self.size && change.size > 0 {
            write!(out, "  {}", bytes(change.size))?;
        }
        writeln!(out)?;
        Ok(out.flush()?)
    }

    fn finish(self, format: &Format) -> anyhow::Result<()> {
        if self.table {
            return Ok(());
        }
        let mut out = stdout();
        output::value(&mut out, &json!({ "changes": self.values }), format)?;
        Ok(out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_of_the_root_are_found() {
        let text = "1 2 0:3 / /proc rw - proc proc rw\n\
                    9 2 0:4 / / rw,relatime - overlay overlay rw,lowerdir=/a\\040b:/c,upperdir=/u,workdir=/w\n";
        assert_eq!(
            Overlay::of_root(&Mountinfo::from_text(text)).unwrap(),
            Overlay {
                upper: "/u".into(),
                lower: vec!["/a b".into(), "/c".into()]
            }
        );
        let error = |text: &str| {
            Overlay::of_root(&Mountinfo::from_text(text))
                .unwrap_err()
                .to_string()
        };
        assert!(error("9 2 0:4 / / rw - ext4 /dev/sda rw").contains("ext4"));
        assert!(error("9 2 0:4 / / ro - overlay o ro,lowerdir=/a:/b").contains("read-only"));
        assert!(
            error("9 2 0:4 / / rw - overlay o rw,lowerdir=1/fs,upperdir=/u").contains("relative")
        );
    }
}
