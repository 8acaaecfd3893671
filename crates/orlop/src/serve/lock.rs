//! Locks that keep two daemons out of one directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

/// A locked directory. The kernel releases the lock however the daemon ends.
#[derive(Debug)]
pub(super) struct Lock(#[allow(dead_code, reason = "holds the lock")] File);

const FILE: &str = "lock";

/// Time to wait for a lock: a killed daemon holds it until the kernel has cleaned up the process.
const PATIENCE: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(20);

/// All users may traverse it: sockets and container files below have their own modes.
const DIR_MODE: u32 = 0o711;

impl Lock {
    /// Creates the directory if needed and locks it; `what` is its key in the configuration.
    pub(super) fn take(dir: &Path, what: &str) -> anyhow::Result<Self> {
        let shown = dir.display();
        DirBuilder::new()
            .recursive(true)
            .mode(DIR_MODE)
            .create(dir)
            .with_context(|| format!("cannot create the {what} directory {shown}"))?;
        refuse_strangers(dir)
            .with_context(|| format!("cannot use the {what} directory {shown}"))?;
        let path = dir.join(FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot write to the {what} directory {shown}"))?;
        match wait_for(&file) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let holder = orlop_fs::read_text(&path, orlop_fs::SMALL_FILE).unwrap_or_default();
                bail!(
                    "another daemon (pid {}) uses the {what} directory {shown}; stop it or choose \
                     another directory",
                    holder.trim(),
                );
            }
            Err(error) => {
                return Err(io::Error::from(error))
                    .with_context(|| format!("cannot lock the {what} directory {shown}"));
            }
        }
        // The content is for people; the kernel holds the lock itself.
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .with_context(|| format!("cannot write to the {what} directory {shown}"))?;
        Ok(Self(file))
    }
}

fn wait_for(file: &File) -> Result<(), Errno> {
    let begin = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begin.elapsed() < PATIENCE => std::thread::sleep(POLL),
            taken => return taken,
        }
    }
}

/// Refuses a directory that others can write to: they could make the daemon, which is root, follow their symbolic
/// links.
fn refuse_strangers(dir: &Path) -> anyhow::Result<()> {
    let found = fs::metadata(dir)?;
    if found.uid() != geteuid().as_raw() {
        bail!(
            "it belongs to user {} instead of the user of the daemon; change its owner",
            found.uid()
        );
    }
    if found.mode() & 0o002 != 0 {
        bail!("it is world-writable; run `chmod o-w` on it, or choose another directory");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_daemon_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a/b");
        let first = Lock::take(&root, "root").unwrap();
        let error = Lock::take(&root, "root").unwrap_err().to_string();
        assert!(
            error.contains(&format!("another daemon (pid {})", std::process::id())),
            "{error}"
        );
        // Taking the lock waits for a daemon that is just ending.
        let ending = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE / 5);
            drop(first);
        });
        Lock::take(&root, "root").unwrap();
        ending.join().unwrap();
    }

    #[test]
    fn a_directory_open_to_all_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let error = format!("{:#}", Lock::take(dir.path(), "state").unwrap_err());
        assert!(error.contains("it is world-writable"), "{error}");
    }
}
