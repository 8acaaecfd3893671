//! Checkpointing running containers, and restoring containers from checkpoints.
//!
//! The OCI runtime calls CRIU, which handles the processes. The other files go into an archive in the
//! format that podman, CRI-O and containerd exchange, so that each can read the others' checkpoints
//! (`checkpointctl`, metadata.go, defines the names):
//!
//! | file | content |
//! |---|---|
//! | `config.dump` | the container's identity and its image |
//! | `spec.dump` | its OCI specification |
//! | `status.dump` | its CRI status |
//! | `rootfs-diff.tar` | its writable layer, as an image layer |
//! | `deleted.files` | the files it deleted, for readers that do not know whiteouts |
//! | `container.log` | its log |
//! | `dump.log`, `stats-dump` | CRIU's log and statistics |
//! | `checkpoint/` | CRIU's images |
//!
//! | source file | purpose |
//! |---|---|
//! | `capture` | freezes containers, checkpoints them, resumes them |
//! | `busy` | ends the processes of an abandoned checkpoint |
//! | `content` | the content of a file, without its holes |
//! | `layer` | writes a writable layer as an archive |
//! | `output` | output files, with limits |
//! | `archive` | writes a directory as an archive, and reads untrusted archives |
//! | `source` | resolves a container's image if it is a checkpoint |
//! | `go_on` | restores a container from a checkpoint |
//! | `of_pod` | checkpoints of whole pods |

pub mod archive;
pub(crate) mod busy;
pub mod capture;
mod content;
pub mod go_on;
mod layer;
pub mod of_pod;
pub mod options;
mod output;
pub mod source;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use serde::{Deserialize, Serialize};

/// The container's identity, and its image.
pub const CONFIG_DUMP: &str = "config.dump";
/// The container's OCI specification.
pub const SPEC_DUMP: &str = "spec.dump";
/// The container's CRI status.
const STATUS_DUMP: &str = "status.dump";
/// The container's writable layer.
const ROOTFS_DIFF: &str = "rootfs-diff.tar";
/// List of the image's files that the container deleted.
const DELETED_FILES: &str = "deleted.files";
/// The container's log.
const CONTAINER_LOG: &str = "container.log";
/// CRIU's log of the checkpoint.
const DUMP_LOG: &str = "dump.log";
/// CRIU's statistics.
const STATS_DUMP: &str = "stats-dump";
/// CRIU's log of the restore.
const RESTORE_LOG: &str = "restore.log";
/// CRIU's images.
pub const IMAGES: &str = "checkpoint";

/// All files except CRIU's images.
const FILES: [&str; 8] = [
    CONFIG_DUMP,
    SPEC_DUMP,
    STATUS_DUMP,
    ROOTFS_DIFF,
    DELETED_FILES,
    CONTAINER_LOG,
    DUMP_LOG,
    STATS_DUMP,
];

/// The content of `config.dump`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigDump {
    /// The container's identifier.
    pub id: String,
    /// The container's name.
    pub name: String,
    /// The container's image by name.
    pub rootfs_image: String,
    /// The container's image by digest, or the image's identifier.
    pub rootfs_image_ref: String,
    /// The container's image as the request named it.
    pub rootfs_image_name: String,
    /// The runtime that ran it.
    pub runtime: String,
    /// When it was created.
    pub created_time: String,
    /// When the checkpoint was made.
    pub checkpointed_time: String,
    /// When it was restored; orlop writes Go's zero time.
    pub restored_time: String,
    /// Whether it was restored.
    pub restored: bool,
}

/// Opens a path beneath a directory without following symbolic links.
fn open_beneath(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat2(root, path, flags, Mode::empty(), resolve)?)
}

/// Extracts the reason of a failure from CRIU's log: its first errors, on one line.
fn reasons(log: &str) -> Option<String> {
    const AT_MOST: usize = 3;
    let errors: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once("Error (").map(|(_, error)| error))
        .filter_map(|error| error.split_once("): ").map(|(_, words)| words.trim()))
        // CRIU logs this wherever it may not raise its own limit, and continues.
        .filter(|words| !words.starts_with("rlimit: "))
        .take(AT_MOST)
        .collect();
    (!errors.is_empty()).then(|| errors.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_are_the_errors_of_the_log() {
        let log = "(00.049) Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self\n\
                   (00.05) Dumping path\n\
                   (00.28) Error (criu/sk-inet.c:191): inet: Connected TCP socket, consider using \
                   --tcp-established option.\n\
                   (00.37) Error (criu/cr-dump.c:2128): Dumping FAILED.\n";
        assert_eq!(
            reasons(log).unwrap(),
            "inet: Connected TCP socket, consider using --tcp-established option.; Dumping FAILED."
        );
        assert_eq!(reasons("(00.1) all is well\n"), None);
    }
}
