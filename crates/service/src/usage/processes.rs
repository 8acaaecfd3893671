//! What can only be learned from the processes themselves.

use std::path::PathBuf;

/// Open files of a container, over all its processes.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    pub(super) descriptors: u64,
    pub(super) sockets: u64,
}

/// Counts the open files. Processes that end meanwhile are left out.
pub(super) fn open_files(pids: &[i32]) -> OpenFiles {
    let mut open = OpenFiles::default();
    for pid in pids {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
            continue;
        };
        for entry in entries.flatten() {
            open.descriptors += 1;
            let target = std::fs::read_link(entry.path()).unwrap_or_else(|_| PathBuf::new());
            if target.to_string_lossy().starts_with("socket:") {
                open.sockets += 1;
            }
        }
    }
    open
}

/// The soft limit of open files of a process.
pub fn max_open_files(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_files_are_counted() {
        let (_one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let open = open_files(&[std::process::id().cast_signed()]);
        assert!(open.sockets >= 2, "{open:?}");
        assert!(open.descriptors > open.sockets, "{open:?}");
        assert!(max_open_files(std::process::id()).unwrap() > 0);
    }
}
