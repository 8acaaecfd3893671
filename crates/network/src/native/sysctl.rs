//! Kernel settings below `/proc/sys`, of the calling thread's network namespace.

use std::io;
use std::path::PathBuf;

/// Sets a value, unless it is that already.
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

/// Sets a value that the kernel may not have (IPv6 can be absent).
pub(super) fn try_set(name: &str, value: &str) {
    // Not read first: on the way to a pod's start every call counts.
    let _ = std::fs::write(path(name), value);
}

/// Lets the node pass packets on, for the families in use.
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
