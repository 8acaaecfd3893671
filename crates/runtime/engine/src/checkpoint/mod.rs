//! Writing running containers out, and letting containers go on from what was written.
//!
//! CRIU does the work with the processes, called by the OCI runtime. What is around them goes into
//! an archive of the form that podman, CRI-O and containerd exchange (the names are those of
//! `checkpointctl`, metadata.go), so that a checkpoint of one is read by another:
//!
//! | file | what it holds |
//! |---|---|
//! | `config.dump` | which container it was, and its image |
//! | `spec.dump` | its OCI specification |
//! | `status.dump` | its status in CRI's words |
//! | `rootfs-diff.tar` | its writable layer, as a layer of an image |
//! | `deleted.files` | what it deleted, for readers that know no whiteouts |
//! | `container.log` | what it had logged |
//! | `dump.log`, `stats-dump` | what CRIU says |
//! | `checkpoint/` | CRIU's images |
//!
//! | source file | what it does |
//! |---|---|
//! | `capture` | pauses containers, writes them out, lets them run on |
//! | `busy` | who is still at work when nobody waits any more |
//! | `content` | what a file holds, without its holes |
//! | `layer` | a writable layer becomes an archive |
//! | `output` | the files that are written, with their bounds |
//! | `archive` | a directory becomes an archive and, without trust, the other way round |
//! | `source` | what a container's image means if it is a checkpoint |
//! | `go_on` | a container made to go on from a checkpoint |
//! | `of_pod` | all of a pod |

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

/// Which container it was, and its image.
pub const CONFIG_DUMP: &str = "config.dump";
/// Its OCI specification.
pub const SPEC_DUMP: &str = "spec.dump";
/// Its status in CRI's words.
const STATUS_DUMP: &str = "status.dump";
/// Its writable layer.
const ROOTFS_DIFF: &str = "rootfs-diff.tar";
/// What it deleted of its image.
const DELETED_FILES: &str = "deleted.files";
/// What it had logged.
const CONTAINER_LOG: &str = "container.log";
/// What CRIU says of the writing.
const DUMP_LOG: &str = "dump.log";
/// What CRIU counted.
const STATS_DUMP: &str = "stats-dump";
/// What CRIU says of the way back.
const RESTORE_LOG: &str = "restore.log";
/// CRIU's images.
pub const IMAGES: &str = "checkpoint";

/// All that stands beside CRIU's images.
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

/// `config.dump`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigDump {
    /// The container's identifier.
    pub id: String,
    /// How it is called.
    pub name: String,
    /// Its image by name.
    pub rootfs_image: String,
    /// Its image by digest, or the image's identifier.
    pub rootfs_image_ref: String,
    /// Its image as it was asked for.
    pub rootfs_image_name: String,
    /// Who ran it.
    pub runtime: String,
    /// When it was made.
    pub created_time: String,
    /// When it was written out.
    pub checkpointed_time: String,
    /// When it was restored: never yet.
    pub restored_time: String,
    /// Whether it was restored.
    pub restored: bool,
}

/// Opens what is beneath a directory, no link followed.
fn open_beneath(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat2(root, path, flags, Mode::empty(), resolve)?)
}

/// What CRIU gives as its reason, from its log: the errors of it, as far as they fit on a line.
fn reasons(log: &str) -> Option<String> {
    const AT_MOST: usize = 3;
    let errors: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once("Error (").map(|(_, error)| error))
        .filter_map(|error| error.split_once("): ").map(|(_, words)| words.trim()))
        // It says so wherever it may not raise its own limit, and goes on.
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
