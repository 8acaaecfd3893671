//! Parts of a container that belong to the host and are not checkpointed: bind-mounted trees, and namespaces that
//! existed before it.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use orlop_oci_types::{Linux, Mount, NamespaceKind};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};

use super::rpc::{CriuOpts, JoinNamespace};
use crate::bundle::Bundle;
use crate::cgroup::Cgroup;
use crate::error::{Error, Result, While};
use crate::plan::DEFAULT_DEVICES;
use crate::plan::options::MountOptions;

/// Maximum number of followed symlinks, as in the kernel.
const LINKS: u32 = 40;

/// Returns whether a mount is a bind mount of the host's.
pub(super) fn is_bind(mount: &Mount) -> bool {
    let options = MountOptions::parse(&mount.options);
    !options.remount && (options.bind || mount.kind == "bind")
}

/// Returns the host's trees in a container: their path inside, and their source.
pub(super) fn trees(bundle: &Bundle, cgroup: &Cgroup) -> Result<Vec<(String, PathBuf)>> {
    let spec = &bundle.spec;
    let rootfs = bundle.rootfs();
    let rootfs = rootfs.canonicalize().unwrap_or(rootfs);
    let linux = spec.linux.as_ref();
    let own_cgroups = linux.is_some_and(|linux| has(linux, NamespaceKind::Cgroup));
    let mut trees = Vec::new();
    for (index, mount) in spec.mounts.iter().enumerate() {
        if is_bind(mount) {
            let idmap = MountOptions::parse(&mount.options).idmap.is_some();
            if idmap || !mount.uid_mappings.is_empty() || !mount.gid_mappings.is_empty() {
                return Err(Error::new(format!(
                    "mounts[{index}]: CRIU cannot restore an ID-mapped mount"
                )));
            }
            let destination = resolve(&rootfs, &mount.destination);
            trees.push((destination, bundle.dir.join(&mount.source)));
        } else if mount.kind == "cgroup" && !cgroup.is_v2() && !own_cgroups {
            for hierarchy in cgroup.hierarchies() {
                let destination = format!("{}/{}", mount.destination, hierarchy.name);
                trees.push((resolve(&rootfs, &destination), hierarchy.directory));
            }
        }
    }
    // A container with a user namespace has the host's device nodes.
    let usual = DEFAULT_DEVICES.map(|(name, _, _)| format!("/dev/{name}"));
    let given = linux.iter().flat_map(|linux| &linux.devices);
    for device in given.map(|device| &device.path).chain(&usual) {
        trees.push((resolve(&rootfs, device), PathBuf::from(device)));
    }
    Ok(trees)
}

/// Tells CRIU about external mounts in a running container.
pub(super) fn tell_mounts(
    opts: &mut CriuOpts,
    bundle: &Bundle,
    cgroup: &Cgroup,
    pid: i32,
) -> Result<()> {
    let path = format!("/proc/{pid}/root");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(&path, flags, Mode::empty()).doing(|| path)?;
    for (name, _) in trees(bundle, cgroup)? {
        // A symlink inside a mount may change the real path.
        let place = seen(&root, &name).map_or_else(|| name.clone(), |(place, _)| place);
        opts.mount(place, name);
    }
    let masked = bundle
        .spec
        .linux
        .iter()
        .flat_map(|linux| &linux.masked_paths);
    for path in masked {
        // A directory is hidden by a file system of the container's own.
        if let Some((place, kind)) = seen(&root, path)
            && kind != FileType::Directory
        {
            opts.mount(place, NOTHING);
        }
    }
    Ok(())
}

/// The file mounted over a masked file.
pub(super) const NOTHING: &str = "/dev/null";

/// Returns the real path of a file in a container, and its type.
fn seen(root: &OwnedFd, path: &str) -> Option<(String, FileType)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let there = openat2(root, path, flags, Mode::empty(), resolve).ok()?;
    let kind = FileType::from_raw_mode(fstat(&there).ok()?.st_mode);
    let own = format!("/proc/self/fd/{}", there.as_raw_fd());
    let place = rustix::fs::readlinkat(CWD, own, Vec::new()).ok()?;
    let place = place.into_string().ok()?;
    place.starts_with('/').then_some((place, kind))
}

/// Resolves a path below a root, following symlinks within it; missing parts count as plain names.
fn resolve(root: &Path, path: &str) -> String {
    let mut rest: Vec<OsString> = parts(Path::new(path));
    let mut done = PathBuf::new();
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        match std::fs::read_link(root.join(&next)) {
            Ok(target) if links < LINKS => {
                links += 1;
                if target.has_root() {
                    done = PathBuf::new();
                }
                rest.extend(parts(&target));
            }
            _ => done = next,
        }
    }
    format!("/{}", done.display())
}

/// Returns the components of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut parts: Vec<OsString> = parts.collect();
    parts.reverse();
    parts
}

pub(super) fn has(linux: &Linux, kind: NamespaceKind) -> bool {
    linux.namespaces.iter().any(|it| it.kind == kind)
}

/// Returns the namespaces of a running container that existed before it. CRIU supports two kinds.
pub(super) fn external_namespaces(linux: &Linux) -> Result<Vec<String>> {
    let mut external = Vec::new();
    for namespace in &linux.namespaces {
        let Some((name, key)) = kept(namespace.kind) else {
            continue;
        };
        if !namespace.path.is_empty() {
            let look = std::fs::metadata(&namespace.path).doing(|| namespace.path.clone())?;
            external.push(format!("{name}[{}]:{key}", look.ino()));
        }
    }
    Ok(external)
}

/// Tells CRIU which namespaces to restore a container into. Some must be passed as open descriptors.
pub(super) fn give_namespaces(opts: &mut CriuOpts, linux: &Linux) -> Result<Vec<OwnedFd>> {
    let mut open_ones = Vec::new();
    for (index, namespace) in linux.namespaces.iter().enumerate() {
        let path = &namespace.path;
        let told = || format!("linux.namespaces[{index}].path: {path}");
        if path.is_empty() {
            continue;
        }
        if let Some((_, key)) = kept(namespace.kind) {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = open(path, flags, Mode::empty()).doing(told)?;
            opts.inherit(key, file.as_raw_fd());
            open_ones.push(file);
            continue;
        }
        let name = match namespace.kind {
            NamespaceKind::Ipc => "ipc",
            NamespaceKind::Uts => "uts",
            NamespaceKind::Mount => "mnt",
            NamespaceKind::User => "user",
            NamespaceKind::Time => "time",
            _ => {
                let problem = "CRIU cannot restore into an existing cgroup namespace";
                return Err(Error::new(problem).within(told()));
            }
        };
        opts.join_ns.push(JoinNamespace {
            ns: name.into(),
            ns_file: path.clone(),
        });
    }
    Ok(open_ones)
}

/// Returns the kinds that CRIU leaves unchanged, with the names that runc uses for them in its images.
fn kept(kind: NamespaceKind) -> Option<(&'static str, &'static str)> {
    match kind {
        NamespaceKind::Network => Some(("net", "extRootNetNS")),
        NamespaceKind::Pid => Some(("pid", "extRootPidNS")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_place_is_found_below_the_root_whatever_links_say() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("var")).unwrap();
        symlink("/run", root.join("var/run")).unwrap();
        symlink("../../../../etc", root.join("var/up")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        for (path, place) in [
            ("/data", "/data"),
            ("data/../x//./y", "/x/y"),
            ("/var/run/secrets", "/run/secrets"),
            ("/var/up/passwd", "/etc/passwd"),
            ("/loop", "/loop"),
        ] {
            assert_eq!(resolve(root, path), place, "{path}");
        }
    }
}
