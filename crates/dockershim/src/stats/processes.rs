//! What can only be learned from the processes themselves.

/// Open files of a container, over all its processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OpenFiles {
    pub(super) descriptors: u64,
    pub(super) sockets: u64,
}

/// Counts the open files. Processes that end meanwhile are left out.
pub(super) fn open_files(pids: &[i32]) -> OpenFiles {
    let directories = pids
        .iter()
        .filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/fd")).ok());
    let mut open = OpenFiles::default();
    for file in directories.flatten().flatten() {
        open.descriptors += 1;
        let target = std::fs::read_link(file.path()).unwrap_or_default();
        open.sockets += u64::from(target.to_string_lossy().starts_with("socket:"));
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_files_are_counted() {
        let (_one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let open = open_files(&[std::process::id().cast_signed()]);
        assert!(
            open.sockets >= 2 && open.descriptors > open.sockets,
            "{open:?}"
        );
        assert_eq!(open_files(&[-1]), OpenFiles::default());
    }
}
