//! A CPU limit that is raised for a while, with its original value.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, XattrFlags, flock, getxattr, removexattr, setxattr};
use rustix::io::Errno;

use crate::Error;

/// The extended attribute that stores a cgroup's limit while it is raised.
pub(crate) const KEPT: &str = "trusted.orlop.cpu-limit";

/// A process holds the lock of a cgroup only for some system calls.
const LOCK_LIMIT: Duration = Duration::from_millis(200);

/// A CPU limit.
struct Limit {
    quota: i64,
    period: i64,
    /// The value in the kernel's format.
    text: String,
}

impl Limit {
    /// Reads a limit; `None` if there is no limit.
    fn read(dir: &Path, name: &str) -> io::Result<Option<Self>> {
        let text = read(dir, name)?;
        // Version 2 has both in one file.
        let (quota, period) = match text.split_once(' ') {
            Some((quota, period)) => (quota.to_owned(), period.to_owned()),
            None => (text.clone(), read(dir, "cpu.cfs_period_us")?),
        };
        let both = (quota.parse(), period.parse());
        let (Ok(quota), Ok(period)) = both else {
            return Ok(None);
        };
        Ok((quota >= 0).then_some(Self {
            quota,
            period,
            text,
        }))
    }

    /// Returns one CPU plus one microsecond, which marks the limit as raised: no other program sets that.
    fn raised(&self) -> String {
        let quota = self.period + 1;
        match self.text.split_once(' ') {
            Some((_, period)) => format!("{quota} {period}"),
            None => quota.to_string(),
        }
    }
}

/// Raises a limit that is less than one CPU, and stores the old value.
pub(crate) fn raise(dir: &Path, name: &str) -> io::Result<()> {
    let _lock = lock(dir)?;
    let Some(limit) = Limit::read(dir, name)?.filter(|limit| limit.quota < limit.period) else {
        return Ok(());
    };
    setxattr(dir, KEPT, limit.text.as_bytes(), XattrFlags::empty())?;
    fs::write(dir.join(name), limit.raised())
}

/// Restores a raised limit, unless another one was set meanwhile.
pub(crate) fn give_back(dir: &Path, name: &str) -> Result<(), Error> {
    let given = || {
        if kept(dir)?.is_none() {
            return Ok(());
        }
        let _lock = lock(dir)?;
        let Some(before) = kept(dir)? else {
            return Ok(());
        };
        if Limit::read(dir, name)?.is_some_and(|limit| limit.text == limit.raised()) {
            fs::write(dir.join(name), before)?;
        }
        Ok(removexattr(dir, KEPT)?)
    };
    let failed = Error::io("restoring the CPU limit of", dir);
    match given().map_err(failed) {
        Err(error) if error.is_not_found() => Ok(()),
        given => given,
    }
}

/// Returns the stored limit of a cgroup; `None` if it is not raised.
pub(crate) fn kept(dir: &Path) -> io::Result<Option<String>> {
    let mut text = [0; 64];
    match getxattr(dir, KEPT, &mut text) {
        Ok(length) => Ok(Some(String::from_utf8_lossy(&text[..length]).into_owned())),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Prevents other threads and processes from raising or restoring at the same time.
fn lock(dir: &Path) -> io::Result<File> {
    let held = File::open(dir)?;
    let deadline = Instant::now() + LOCK_LIMIT;
    while let Err(error) = flock(&held, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK || Instant::now() >= deadline {
            return Err(error.into());
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(held)
}

pub(crate) fn read(dir: &Path, name: &str) -> io::Result<String> {
    let text = orlop_fs::read_kernel_text(dir.join(name))?;
    Ok(text.trim().to_owned())
}
