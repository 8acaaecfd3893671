//! Namespaces of the bench's own: nothing else that this machine does is measured in them, and the
//! node's rules are not touched.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// How the bench knows that it stands apart already.
const APART: &str = "ORLOP_BENCH_APART";

/// Where the node's scratch is: a directory that cargo has made for the like.
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

/// Moves this program into namespaces of its own, before it has a second thread. There the node's
/// scratch is in memory: a disk's file system becomes slow in directories of which much was removed.
pub(crate) fn stand_apart() {
    if std::env::var_os(APART).is_some() {
        return;
    }
    let own = std::env::current_exe().expect("our own path");
    std::fs::create_dir_all(SCRATCH).expect("make the directory of the scratch");
    let script =
        "ip link set lo up && mount -t tmpfs scratch \"$ORLOP_TEST_DIR\" && exec \"$0\" \"$@\"";
    let error = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private"])
        .args(["sh", "-c", script])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(APART, "1")
        .env("ORLOP_TEST_DIR", Path::new(SCRATCH))
        .exec();
    panic!("standing apart with unshare(1): {error}");
}
