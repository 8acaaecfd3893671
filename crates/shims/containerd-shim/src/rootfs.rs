//! A container's root filesystem: the mounts of containerd's snapshotter, below the bundle, where inspection tools
//! expect them.

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use orlop_containerd_api::types::Mount;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, mount_remount, unmount,
};
use rustix::process::chdir;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::error::{Result, failed, invalid, unknown};
use crate::users::Mapped;

/// Maximum length of mount options, including the terminator: one page.
const PAGE: usize = 4096;

/// Mounts them over each other; on an error none remains.
pub(crate) fn mount_all(mounts: &[Mount], rootfs: &Path) -> Result<()> {
    if mounts.is_empty() {
        return Ok(());
    }
    match fs::create_dir(rootfs) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(failed("creating", rootfs)(error));
        }
        _ => {}
    }
    for (done, mount) in mounts.iter().enumerate() {
        let at = beneath(rootfs, &mount.target)?;
        if let Err(status) = mount_mapped(mount, &at) {
            unmount_all(rootfs, done);
            return Err(status);
        }
    }
    Ok(())
}

/// Removes this many mounts, with all mounts below them.
pub(crate) fn unmount_all(rootfs: &Path, count: usize) {
    for _ in 0..count {
        if unmount(rootfs, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_err() {
            return;
        }
    }
}

fn beneath(rootfs: &Path, target: &str) -> Result<PathBuf> {
    if target.split('/').any(|part| part == "..") {
        return Err(invalid(format!("{target} is outside the root filesystem")));
    }
    Ok(rootfs.join(target.trim_start_matches('/')))
}

/// Mounts with id mapping if the options name the users. Only the layers are mapped; files that the container writes
/// already have its ids.
fn mount_mapped(asked: &Mount, at: &Path) -> Result<()> {
    let option = |name: &str| {
        let mut options = asked.options.iter();
        options.find_map(|option| option.strip_prefix(name))
    };
    let (Some(users), Some(groups)) = (option("uidmap="), option("gidmap=")) else {
        return mount_one(asked, at);
    };
    let users = crate::users::namespace(users, groups)?;
    let dir = at.with_file_name("mapped");
    let layers = option("lowerdir=").map(|layers| layers.split(':').map(Path::new));
    let sources: Vec<&Path> = match layers {
        Some(layers) => layers.collect(),
        None => vec![Path::new(&asked.source)],
    };
    let mapped = Mapped::of(&sources, &users, &dir)?;
    let mut plain = asked.clone();
    plain.options.retain(|option| {
        let names = ["uidmap=", "gidmap=", "lowerdir="];
        !names.iter().any(|name| option.starts_with(name))
    });
    let places: Vec<_> = mapped
        .places
        .iter()
        .map(|place| place.to_string_lossy())
        .collect();
    match option("lowerdir=") {
        Some(_) => plain.options.push(format!("lowerdir={}", places.join(":"))),
        None => plain.source = places.concat(),
    }
    mount_one(&plain, at)
}

fn mount_one(asked: &Mount, at: &Path) -> Result<()> {
    let Flags {
        flags,
        propagation,
        data,
        bind,
    } = Flags::of(&asked.options)?;
    let of = |doing: &str| format!("{doing} {} {} on", asked.r#type, asked.source);
    let problem = |doing: &str| failed(&of(doing), at);
    if bind {
        let recursive = flags & MountFlags::REC;
        mount(&*asked.source, at, "", MountFlags::BIND | recursive, None)
            .map_err(problem("mounting"))?;
        let rest = flags - MountFlags::REC;
        if !rest.is_empty() {
            mount_remount(at, MountFlags::BIND | rest, c"").map_err(problem("remounting"))?;
        }
    } else {
        if asked.r#type.contains(['/', '.']) {
            return Err(unknown(format!(
                "mounts of type {} need a mount helper, which this shim does not support",
                asked.r#type
            )));
        }
        let data = data.join(",");
        if data.len() >= PAGE {
            return mount_long(asked, at, flags, &data);
        }
        let text = CString::new(data).map_err(failed(&of("invalid options of"), at))?;
        mount(
            &*asked.source,
            at,
            &*asked.r#type,
            flags,
            Some(text.as_c_str()),
        )
        .map_err(problem("mounting"))?;
    }
    if !propagation.is_empty() {
        mount_change(at, propagation).map_err(problem("setting the propagation of"))?;
    }
    Ok(())
}

/// Mounts an overlay whose options exceed a page: its layers are named relative to their common directory.
fn mount_long(asked: &Mount, at: &Path, flags: MountFlags, data: &str) -> Result<()> {
    let (dir, data) = shortened(data)
        .filter(|(_, data)| data.len() < PAGE)
        .ok_or_else(|| {
            unknown(format!(
                "the options of the {} mount at {} are longer than the kernel allows",
                asked.r#type,
                at.display()
            ))
        })?;
    let (kind, source, at) = (asked.r#type.clone(), asked.source.clone(), at.to_owned());
    let mounting = move || -> Result<()> {
        leave_directory().map_err(failed("leaving", Path::new(".")))?;
        chdir(&dir).map_err(failed("entering", &dir))?;
        let text = CString::new(data).map_err(failed("invalid options of", &at))?;
        mount(&*source, &at, &*kind, flags, Some(text.as_c_str())).map_err(failed("mounting", &at))
    };
    // The thread has a working directory of its own.
    let joined = thread::spawn(mounting).join();
    joined.unwrap_or_else(|_| Err(unknown("mounting a root filesystem failed")))
}

#[allow(unsafe_code, reason = "the calling thread ends with the mount")]
fn leave_directory() -> rustix::io::Result<()> {
    // SAFETY: only the working directory stops being shared, and nothing here relies on sharing it.
    unsafe { unshare_unsafe(UnshareFlags::FS) }
}

/// Returns the common directory of all layers, and the options with relative layers.
fn shortened(data: &str) -> Option<(PathBuf, String)> {
    let mut options: Vec<String> = data.split(',').map(Into::into).collect();
    let lower = options
        .iter_mut()
        .find(|option| option.starts_with("lowerdir="))?;
    let layers: Vec<&Path> = lower["lowerdir=".len()..]
        .split(':')
        .map(Path::new)
        .collect();
    let mut common = layers.first()?.parent()?;
    while !layers.iter().all(|layer| layer.starts_with(common)) {
        common = common.parent()?;
    }
    let common = common.to_owned();
    let short = layers
        .iter()
        .map(|layer| layer.strip_prefix(&common).ok()?.to_str());
    let short: Option<Vec<&str>> = short.collect();
    let written = format!("lowerdir={}", short?.join(":"));
    *lower = written;
    Some((common, options.join(",")))
}

/// Options of mount(8), split by kind.
#[derive(Debug, PartialEq, Eq)]
struct Flags {
    flags: MountFlags,
    propagation: MountPropagationFlags,
    data: Vec<String>,
    bind: bool,
}

impl Flags {
    fn of(options: &[String]) -> Result<Self> {
        let mut sorted = Self {
            flags: MountFlags::empty(),
            propagation: MountPropagationFlags::empty(),
            data: Vec::new(),
            bind: false,
        };
        for option in options {
            let (flag, is_on) = match option.as_str() {
                "bind" => {
                    sorted.bind = true;
                    continue;
                }
                "rbind" => {
                    sorted.bind = true;
                    (MountFlags::REC, true)
                }
                "ro" => (MountFlags::RDONLY, true),
                "rw" => (MountFlags::RDONLY, false),
                "nosuid" => (MountFlags::NOSUID, true),
                "suid" => (MountFlags::NOSUID, false),
                "nodev" => (MountFlags::NODEV, true),
                "dev" => (MountFlags::NODEV, false),
                "noexec" => (MountFlags::NOEXEC, true),
                "exec" => (MountFlags::NOEXEC, false),
                "sync" => (MountFlags::SYNCHRONOUS, true),
                "dirsync" => (MountFlags::DIRSYNC, true),
                "noatime" => (MountFlags::NOATIME, true),
                "atime" => (MountFlags::NOATIME, false),
                "nodiratime" => (MountFlags::NODIRATIME, true),
                "relatime" => (MountFlags::RELATIME, true),
                "strictatime" => (MountFlags::STRICTATIME, true),
                "defaults" => continue,
                "private" | "rprivate" | "shared" | "rshared" | "slave" | "rslave"
                | "unbindable" | "runbindable" => {
                    sorted.propagation |= propagation(option);
                    continue;
                }
                "loop" => {
                    return Err(unknown(
                        "this shim does not mount root filesystem images (mount option loop)",
                    ));
                }
                _ => {
                    sorted.data.push(option.clone());
                    continue;
                }
            };
            sorted.flags.set(flag, is_on);
        }
        Ok(sorted)
    }
}

fn propagation(option: &str) -> MountPropagationFlags {
    let (name, recursive) = match option.strip_prefix('r') {
        Some(name) => (name, MountPropagationFlags::REC),
        None => (option, MountPropagationFlags::empty()),
    };
    let kind = match name {
        "shared" => MountPropagationFlags::SHARED,
        "slave" => MountPropagationFlags::DOWNSTREAM,
        "unbindable" => MountPropagationFlags::UNBINDABLE,
        _ => MountPropagationFlags::PRIVATE,
    };
    kind | recursive
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::mount::MountFlags;

    use super::{Flags, beneath, shortened};

    #[test]
    fn options_are_flags_or_the_file_systems() {
        let options = ["rbind", "ro", "nosuid", "size=1k", "suid"].map(Into::into);
        let flags = Flags::of(&options).unwrap();
        assert!(flags.bind);
        assert_eq!(flags.flags, MountFlags::REC | MountFlags::RDONLY);
        assert_eq!(flags.data, ["size=1k"]);
        assert!(Flags::of(&["loop".into()]).is_err());
    }

    #[test]
    fn many_layers_are_named_from_what_they_have_in_common() {
        let data = "index=off,lowerdir=/s/1/fs:/s/22/fs,upperdir=/s/3/fs";
        let (dir, short) = shortened(data).unwrap();
        assert_eq!(dir, Path::new("/s"));
        assert_eq!(short, "index=off,lowerdir=1/fs:22/fs,upperdir=/s/3/fs");
    }

    #[test]
    fn nothing_is_mounted_outside() {
        let rootfs = Path::new("/b/rootfs");
        assert_eq!(beneath(rootfs, "").unwrap(), Path::new("/b/rootfs/"));
        assert_eq!(
            beneath(rootfs, "/data").unwrap(),
            Path::new("/b/rootfs/data")
        );
        assert!(beneath(rootfs, "a/../../b").is_err());
    }
}
