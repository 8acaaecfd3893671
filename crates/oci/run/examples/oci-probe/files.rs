//! What lies in the file system of the container.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use serde_json::{Value, json};

/// Settings of the kernel that namespaces have of their own, and some of the whole machine.
pub(crate) const SYSCTLS: &[&str] = &[
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/shm_rmid_forced",
    "/proc/sys/kernel/msgmax",
    "/proc/sys/kernel/sem",
    "/proc/sys/fs/mqueue/msg_max",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/ping_group_range",
    "/proc/sys/net/ipv4/ip_unprivileged_port_start",
    "/proc/sys/net/core/somaxconn",
];

/// Whole files by path, or why they cannot be read.
pub(crate) fn texts(paths: &[&str]) -> Value {
    let found: BTreeMap<&str, String> = paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path);
            let text = text.unwrap_or_else(|error| said(&error));
            (*path, text.trim().to_owned())
        })
        .collect();
    json!(found)
}

/// The lines of a file.
pub(crate) fn lines(path: &str) -> Value {
    match std::fs::read_to_string(path) {
        Ok(text) => json!(text.lines().collect::<Vec<_>>()),
        Err(error) => json!([said(&error)]),
    }
}

/// What is directly in a directory.
pub(crate) fn entries(path: &str) -> Value {
    let mut found = BTreeMap::new();
    if let Ok(entries) = std::fs::read_dir(path) {
        for entry in entries.flatten() {
            found.insert(entry.path(), look(&entry.path()));
        }
    }
    json!(found)
}

/// All that is below a directory, itself included: kinds, modes, owners, numbers of devices, targets.
pub(crate) fn tree(path: &str) -> Value {
    let mut found = BTreeMap::new();
    walk(Path::new(path), &mut found, 0);
    json!(found)
}

fn walk(path: &Path, found: &mut BTreeMap<String, String>, depth: usize) {
    const DEEPEST: usize = 6;
    const MOST: usize = 500;
    found.insert(path.to_string_lossy().into_owned(), look(path));
    let is_directory = std::fs::symlink_metadata(path).is_ok_and(|look| look.is_dir());
    if !is_directory || depth == DEEPEST || found.len() > MOST {
        return;
    }
    if let Ok(entries) = std::fs::read_dir(path) {
        for entry in entries.flatten() {
            walk(&entry.path(), found, depth + 1);
        }
    }
}

fn look(path: &Path) -> String {
    let look = match std::fs::symlink_metadata(path) {
        Ok(look) => look,
        Err(error) => return said(&error),
    };
    let kind = look.file_type();
    let (mode, uid, gid) = (look.mode() & 0o7777, look.uid(), look.gid());
    if kind.is_symlink() {
        let target = std::fs::read_link(path).unwrap_or_default();
        return format!("link {uid}:{gid} {}", target.display());
    }
    let word = if kind.is_dir() {
        "directory"
    } else if kind.is_char_device() {
        "character device"
    } else if kind.is_block_device() {
        "block device"
    } else if kind.is_fifo() {
        "fifo"
    } else {
        "file"
    };
    let device = if kind.is_char_device() || kind.is_block_device() {
        let number = look.rdev();
        format!(
            " {}:{}",
            rustix::fs::major(number),
            rustix::fs::minor(number)
        )
    } else {
        String::new()
    };
    format!("{word} {mode:04o} {uid}:{gid}{device}")
}

/// The network interfaces, and whether the one to itself works.
pub(crate) fn interfaces() -> Value {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim()))
        .collect();
    let loopback = std::net::UdpSocket::bind("127.0.0.1:0");
    json!({
        "names": names,
        "loopback": loopback.map_or_else(|error| said(&error), |_| "works".to_owned()),
    })
}

/// An error by its number: texts differ by library.
pub(crate) fn said(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => rustix::io::Errno::from_raw_os_error(number).to_string(),
        None => error.to_string(),
    }
}
