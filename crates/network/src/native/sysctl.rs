//! Kernel settings below `/proc/sys`, of the calling thread's network namespace.

use std::io;
use std::path::PathBuf;

/// Sets a value, unless it is already set.
pub(super) fn set(name: &str, value: &str) -> io::Result<()> {
    let path = path(name);
    if orlop_fs::read_kernel_text(&path).is_ok_and(|now| now.trim() == value) {
        return Ok(());
    }
    std::fs::write(path, value)
}

pub(super) fn get(name: &str) -> io::Result<String> {
    Ok(orlop_fs::read_kernel_text(path(name))?.trim().to_owned())
}

/// Sets a value that may be missing in the kernel (for example without IPv6).
pub(super) fn try_set(name: &str, value: &str) {
    // The current value is not read first: this is on the path of a pod's start, where every call counts.
    let _ = std::fs::write(path(name), value);
}

/// Enables forwarding for the families in use.
pub(super) fn enable_forwarding(v4: bool, v6: bool) -> io::Result<()> {
    if v4 {
        set("net/ipv4/ip_forward", "1")?;
    }
    if v6 {
        set("net/ipv6/conf/all/forwarding", "1")?;
    }
    Ok(())
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name)
}
