//! Kernel parameters of the pod's namespaces.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use orlop_keeper_protocol::Sysctl;
use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Sets kernel parameters. A mount of `/proc` shows each process's own namespaces and caches entries of all namespaces
/// under the same names. In the node's mount the kernel searches for each pod's parameters among those of all others.
/// So this uses a private mount, which ends with the returned descriptor.
pub(crate) fn set(parameters: &[Sysctl]) -> Result<Option<OwnedFd>, String> {
    let mut own = None;
    for Sysctl { name, value } in parameters {
        let path = path_of(name)
            .ok_or_else(|| format!("{name:?} is not the name of a kernel parameter"))?;
        let root = match &own {
            Some(root) => root,
            None => own.insert(proc().map_err(|error| format!("cannot open /proc: {error}"))?),
        };
        write(root, &path, value)
            .map_err(|error| format!("cannot set kernel parameter {name} to {value:?}: {error}"))?;
    }
    Ok(own)
}

/// Opens a private `/proc`, or the node's if that fails.
fn proc() -> io::Result<OwnedFd> {
    let own = || {
        let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        fsmount(context.as_fd(), flags, MountAttrFlags::empty())
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(own().or_else(|_| rustix::fs::open("/proc", flags, Mode::empty()))?)
}

fn write(root: &OwnedFd, path: &PathBuf, value: &str) -> io::Result<()> {
    let file = openat(root, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    if rustix::io::write(&file, value.as_bytes())? == value.len() {
        return Ok(());
    }
    Err(io::ErrorKind::WriteZero.into())
}

/// Returns the path of a parameter's file below `/proc`. As with sysctl(8), the first separator decides: with dots, a
/// slash stands for a dot within a part; with slashes, a dot is itself.
fn path_of(name: &str) -> Option<PathBuf> {
    let separator = name.chars().find(|c| matches!(c, '.' | '/'))?;
    let relative: String = if separator == '/' {
        name.to_owned()
    } else {
        let swap = |c| match c {
            '.' => '/',
            '/' => '.',
            other => other,
        };
        name.chars().map(swap).collect()
    };
    let decent = |part: &str| !part.is_empty() && part != "." && part != "..";
    relative
        .split('/')
        .all(decent)
        .then(|| PathBuf::from(format!("sys/{relative}")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::path_of;

    #[test]
    fn both_spellings_lead_to_the_file() {
        let expected = Some(Path::new("sys/net/ipv4/conf/eth0.100/forwarding"));
        for name in [
            "net.ipv4.conf.eth0/100.forwarding",
            "net/ipv4/conf/eth0.100/forwarding",
        ] {
            assert_eq!(path_of(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn names_that_lead_out_of_proc_sys_are_refused() {
        for name in [
            "",
            "net",
            "net/../../etc",
            "..//..",
            "net...x",
            "/etc/passwd",
        ] {
            assert_eq!(path_of(name), None, "{name}");
        }
    }
}
