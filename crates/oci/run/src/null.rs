//! The null device among the standard streams. Through a descriptor of the host's device, a container could change its
//! owner and mode for the whole host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use orlop_fs::detached_read_only;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat2, stat, statat,
};
use rustix::io::{Errno, Result};

/// Returns whether the file is a null device.
pub(crate) fn is_null(look: &Stat) -> bool {
    FileType::from_raw_mode(look.st_mode) == FileType::CharacterDevice
        && (
            rustix::fs::major(look.st_rdev),
            rustix::fs::minor(look.st_rdev),
        ) == (1, 3)
}

/// Returns the host's device through a read-only mount, if it is a standard stream. Reads and writes still work, but
/// its owner and mode cannot change.
pub(crate) fn lend() -> Option<OwnedFd> {
    let host = stat(c"/dev/null").ok()?;
    let is_host = |stream| {
        let look = fstat(stream);
        look.is_ok_and(|look| (look.st_dev, look.st_ino) == (host.st_dev, host.st_ino))
    };
    if !(0..=2).any(|number| is_host(stream(number))) {
        return None;
    }
    open_in(detached_read_only(c"/dev").ok()?.as_fd()).ok()
}

/// Replaces standard streams that are a null device with the container's own, or else with the lent one.
pub(crate) fn open_again(lent: Option<&OwnedFd>) -> Result<()> {
    let mut own = None;
    for number in 0..=2 {
        if !fstat(stream(number)).is_ok_and(|look| is_null(&look)) {
            continue;
        }
        let null = match (own.get_or_insert_with(own_null), lent) {
            (Ok(own), _) => own,
            (Err(_), Some(lent)) => lent,
            (Err(errno), None) => return Err(*errno),
        };
        match number {
            0 => rustix::stdio::dup2_stdin(null)?,
            1 => rustix::stdio::dup2_stdout(null)?,
            _ => rustix::stdio::dup2_stderr(null)?,
        }
    }
    Ok(())
}

fn own_null() -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open_in(open(c"/dev", flags, Mode::empty())?.as_fd())
}

/// Opens the null device. A volume may have another file in its place, which is not opened, or may swap the two
/// meanwhile.
fn open_in(dev: BorrowedFd<'_>) -> Result<OwnedFd> {
    if !is_null(&statat(dev, c"null", AtFlags::SYMLINK_NOFOLLOW)?) {
        return Err(Errno::NODEV);
    }
    // A process can see the flags of its streams, so `O_NOFOLLOW` is not used to refuse symlinks.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let null = openat2(
        dev,
        c"null",
        flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )?;
    if is_null(&fstat(&null)?) {
        Ok(null)
    } else {
        Err(Errno::NODEV)
    }
}

fn stream(number: u32) -> BorrowedFd<'static> {
    match number {
        0 => rustix::stdio::stdin(),
        1 => rustix::stdio::stdout(),
        _ => rustix::stdio::stderr(),
    }
}
