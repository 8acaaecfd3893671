//! Overlay mounts by file descriptor (`fsopen`, `fsconfig`, `fsmount`).

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::fs::{CWD, Mode, OFlags, open, symlink};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_fd, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen, mount, move_mount, open_tree, unmount,
};
use rustix::process::fchdir;

use orlop_fs::mapped_clone;
use orlop_pool::started;

use super::attributes::{own_directory, own_mounts};
use crate::{Error, Result};

/// An overlay of an image's layers, with or without a writable layer on top.
#[derive(Debug, Clone)]
pub struct OverlayMount {
    /// The lower directories, top first.
    pub lower: Vec<PathBuf>,
    /// The upper directory and the work directory of overlayfs; without them, the mount is read-only and needs two
    /// lower directories.
    pub writable: Option<(PathBuf, PathBuf)>,
    /// Whether overlayfs stores its metadata in `user.` attributes, for mounts inside a user namespace.
    pub user_xattr: bool,
    /// Whether sync requests of the container are ignored; its data may then be lost in a power failure.
    pub volatile: bool,
    /// A user namespace (descriptor) for an idmapped mount of the lower directories. The writable layer is not
    /// mapped, and should belong to the namespace's root.
    pub idmap: Option<Arc<OwnedFd>>,
    /// The SELinux context of all files, existing and new. Set only if the kernel has SELinux.
    pub label: Option<String>,
}

/// Maximum size of the mount data of `mount(2)`, which is one page.
const LEGACY_DATA: usize = 4095;

impl OverlayMount {
    /// Creates a writable overlay with default options.
    pub fn new(lower: Vec<PathBuf>, upper: PathBuf, work: PathBuf) -> Self {
        Self {
            writable: Some((upper, work)),
            ..Self::read_only(lower)
        }
    }

    /// Creates a read-only overlay with default options.
    pub fn read_only(lower: Vec<PathBuf>) -> Self {
        Self {
            lower,
            writable: None,
            user_xattr: false,
            volatile: false,
            idmap: None,
            label: None,
        }
    }

    /// Mounts the overlay as a detached mount. It exists as long as the descriptor, or until it is attached with
    /// `move_mount` and unmounted. Blocks.
    pub fn mount(&self) -> Result<OwnedFd> {
        let doing = || format!("mounting an overlay of {} layers", self.lower.len());
        match self.mount_by_fd() {
            // The kernel does not support these options yet.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if self.idmap.is_none() => {
                self.mount_by_path()
            }
            Err(Errno::INVAL | Errno::BADF | Errno::NOSYS | Errno::OPNOTSUPP) => self.mount_apart(),
            other => other.map_err(|error| Error::io(doing(), error.into())),
        }
    }

    fn mount_by_fd(&self) -> rustix::io::Result<OwnedFd> {
        let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&fs, "source", "overlay")?;
        // A mapped clone of a directory ends with its descriptor, so the clones are kept until the overlay uses them.
        let mut clones = Vec::new();
        for lower in &self.lower {
            clones.extend(set_dir(&fs, "lowerdir+", lower, self.idmap.as_deref())?);
        }
        if let Some((upper, work)) = &self.writable {
            set_dir(&fs, "upperdir", upper, None)?;
            set_dir(&fs, "workdir", work, None)?;
        }
        if self.user_xattr {
            fsconfig_set_flag(&fs, "userxattr")?;
        }
        if self.volatile && self.writable.is_some() {
            fsconfig_set_flag(&fs, "volatile")?;
        }
        if let Some(label) = &self.label {
            fsconfig_set_string(&fs, "context", label.as_str())?;
        }
        fsconfig_create(&fs)?;
        drop(clones);
        let attributes = match self.writable {
            Some(_) => MountAttrFlags::empty(),
            None => MountAttrFlags::MOUNT_ATTR_RDONLY,
        };
        fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    }

    /// Mounts the overlay on kernels before 6.13, which accept no detached mounts and so no mapped clones as layers.
    /// In a private mount namespace, mounts each clone over its own directory, and passes the path.
    fn mount_apart(&self) -> Result<OwnedFd> {
        let doing = "mounting layers with the ID mappings of a user namespace";
        let unmapped = Self {
            idmap: None,
            ..self.clone()
        };
        let apart = || {
            own_mounts().map_err(|error| Error::io(doing, error.into()))?;
            for lower in &self.lower {
                self.cover(lower).map_err(|error| match error {
                    Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP => Error::Unsupported(format!(
                        "cannot mount layers with the ID mappings of a user namespace ({error}); \
                         this requires Linux 5.19 and a file system that supports idmapped mounts"
                    )),
                    error => Error::at(doing, lower, error),
                })?;
            }
            unmapped.mount()
        };
        on_a_thread(apart)
    }

    /// Mounts a mapped clone of a directory over the directory.
    fn cover(&self, dir: &Path) -> rustix::io::Result<()> {
        match &self.idmap {
            Some(userns) => move_mount(
                mapped_clone(dir, userns)?,
                c"",
                CWD,
                dir,
                MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
            ),
            None => Ok(()),
        }
    }

    /// Mounts the overlay on kernels before 6.8, which have no `lowerdir+`: mounts it with `mount(2)` on a private
    /// directory, and detaches it from there.
    fn mount_by_path(&self) -> Result<OwnedFd> {
        let data = self.legacy_data();
        if data.len() > LEGACY_DATA {
            return self.mount_by_short_names();
        }
        let place = self
            .writable
            .as_ref()
            .map_or(&self.lower[0], |(_, work)| work);
        let failed = |error: Errno| Error::at("mounting an overlay on", place, error);
        let flags = match self.writable {
            Some(_) => MountFlags::empty(),
            None => MountFlags::RDONLY,
        };
        let data = std::ffi::CString::new(data)
            .map_err(|_| Error::io("mounting an overlay", Errno::INVAL.into()))?;
        mount("overlay", place, "overlay", flags, &*data).map_err(failed)?;
        let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, place, clone);
        unmount(place, UnmountFlags::DETACH).map_err(failed)?;
        tree.map_err(failed)
    }

    /// Mounts more layers than fit into the mount data by their paths. In a private tmpfs directory, each layer has a
    /// symbolic link with a number as its name.
    fn mount_by_short_names(&self) -> Result<OwnedFd> {
        let failed = |error: Errno| Error::io("creating short names for layers", error.into());
        let apart = || {
            own_directory().map_err(failed)?;
            enter_memory().map_err(failed)?;
            let mut short = Self {
                lower: Vec::with_capacity(self.lower.len()),
                ..self.clone()
            };
            for (at, lower) in self.lower.iter().enumerate() {
                let name = PathBuf::from(at.to_string());
                symlink(lower, &name).map_err(failed)?;
                short.lower.push(name);
            }
            if short.legacy_data().len() > LEGACY_DATA {
                return Err(Error::Unsupported(format!(
                    "this kernel cannot mount {} layers; use Linux 6.8 or newer",
                    self.lower.len()
                )));
            }
            short.mount_by_path()
        };
        on_a_thread(apart)
    }

    fn legacy_data(&self) -> Vec<u8> {
        let mut data = b"lowerdir=".to_vec();
        for (at, lower) in self.lower.iter().enumerate() {
            if at > 0 {
                data.push(b':');
            }
            escape(lower, &mut data);
        }
        if let Some((upper, work)) = &self.writable {
            data.extend_from_slice(b",upperdir=");
            escape(upper, &mut data);
            data.extend_from_slice(b",workdir=");
            escape(work, &mut data);
            if self.volatile {
                data.extend_from_slice(b",volatile");
            }
        }
        if self.user_xattr {
            data.extend_from_slice(b",userxattr");
        }
        if let Some(label) = &self.label {
            // The quotes protect the commas; a context contains no quotes.
            data.extend_from_slice(format!(",context=\"{label}\"").as_bytes());
        }
        data
    }
}

/// Runs a mount on a temporary thread, because changes to the thread's namespaces cannot be undone.
fn on_a_thread(mount: impl FnOnce() -> Result<OwnedFd> + Send) -> Result<OwnedFd> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("mount".to_owned());
        started(thread.spawn_scoped(scope, mount))
            .map_err(|error| Error::io("starting a mount thread", error))?
            .join()
            .unwrap_or_else(|_| Err(Error::io("mounting an overlay", Errno::IO.into())))
    })
}

/// Makes an empty, private tmpfs this thread's working directory. It disappears with the thread.
fn enter_memory() -> rustix::io::Result<()> {
    let fs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&fs)?;
    let attributes = MountAttrFlags::empty();
    fchdir(fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Sets a layer by descriptor if the kernel supports that (6.13), otherwise by path, which is limited to 255 bytes.
/// Returns the mapped clone of the directory, if one was made.
fn set_dir(
    fs: &OwnedFd,
    key: &str,
    dir: &Path,
    idmap: Option<&OwnedFd>,
) -> rustix::io::Result<Option<OwnedFd>> {
    if let Some(userns) = idmap {
        let tree = mapped_clone(dir, userns)?;
        return fsconfig_set_fd(fs, key, &tree).map(|()| Some(tree));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = open(dir, flags, Mode::empty())?;
    match fsconfig_set_fd(fs, key, &fd) {
        Err(Errno::INVAL | Errno::BADF) => {
            fsconfig_set_string(fs, key, dir.as_os_str().as_bytes())?;
        }
        other => other?,
    }
    Ok(None)
}

/// Escapes colons and commas, which are separators in mount data.
fn escape(path: &Path, into: &mut Vec<u8>) {
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b':' | b',' | b'\\') {
            into.push(b'\\');
        }
        into.push(*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Dirs(tempfile::TempDir);

    impl Dirs {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn make(&self, name: &str) -> PathBuf {
            let path = self.0.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        }
    }

    fn inside(mount: &OwnedFd, path: &str) -> PathBuf {
        use std::os::fd::AsRawFd;
        PathBuf::from(format!("/proc/self/fd/{}/{path}", mount.as_raw_fd()))
    }

    #[test]
    fn upper_layers_hide_lower_ones_and_writes_go_to_the_top() {
        let dirs = Dirs::new();
        let (low, high) = (dirs.make("low"), dirs.make("high"));
        fs::write(low.join("file"), "low").unwrap();
        fs::write(low.join("other"), "low").unwrap();
        fs::write(high.join("file"), "high").unwrap();
        let (upper, work) = (dirs.make("upper"), dirs.make("work"));
        let overlay = OverlayMount::new(vec![high, low.clone()], upper.clone(), work);
        for mount in [
            overlay.mount().unwrap(),
            overlay.mount_by_path().unwrap(),
            overlay.mount_by_short_names().unwrap(),
        ] {
            assert_eq!(fs::read_to_string(inside(&mount, "file")).unwrap(), "high");
            assert_eq!(fs::read_to_string(inside(&mount, "other")).unwrap(), "low");
            fs::write(inside(&mount, "new"), "new").unwrap();
            assert_eq!(fs::read_to_string(upper.join("new")).unwrap(), "new");
        }
        assert!(!low.join("new").exists());
    }

    #[test]
    fn the_commas_of_a_label_end_no_option() {
        let mut overlay = OverlayMount::read_only(vec!["/a".into(), "/b".into()]);
        overlay.label = Some("u:r:t:s0:c1,c2".to_owned());
        let data = overlay.legacy_data();
        assert_eq!(data, b"lowerdir=/a:/b,context=\"u:r:t:s0:c1,c2\"");
    }

    #[test]
    fn five_hundred_layers_with_long_names_mount() {
        let dirs = Dirs::new();
        let lower: Vec<PathBuf> = (0..500)
            .map(|n| dirs.make(&format!("{n:03}{}", "x".repeat(180))))
            .collect();
        fs::write(lower[499].join("deepest"), "").unwrap();
        let overlay = OverlayMount::read_only(lower);
        for mount in [overlay.mount().unwrap(), overlay.mount_by_path().unwrap()] {
            assert!(inside(&mount, "deepest").exists());
            assert!(fs::write(inside(&mount, "new"), "").is_err());
        }
    }

    /// A child process in a new user namespace, which keeps the namespace alive.
    struct Namespace(std::process::Child);

    impl Namespace {
        fn new() -> Self {
            let child = std::process::Command::new("unshare")
                .args(["--user", "sleep", "60"])
                .spawn()
                .unwrap();
            let own = fs::read_link("/proc/self/ns/user").unwrap();
            let theirs = format!("/proc/{}/ns/user", child.id());
            while fs::read_link(&theirs).unwrap() == own {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            for map in ["uid_map", "gid_map"] {
                fs::write(format!("/proc/{}/{map}", child.id()), "0 100000 65536").unwrap();
            }
            Self(child)
        }

        fn fd(&self) -> Arc<OwnedFd> {
            let file = fs::File::open(format!("/proc/{}/ns/user", self.0.id())).unwrap();
            Arc::new(file.into())
        }
    }

    impl Drop for Namespace {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn files_appear_with_the_ids_of_a_user_namespace() {
        use std::os::unix::fs::MetadataExt;
        let dirs = Dirs::new();
        let (low, high) = (dirs.make("low"), dirs.make("high"));
        fs::write(low.join("file"), "").unwrap();
        let (upper, work) = (dirs.make("upper"), dirs.make("work"));
        let namespace = Namespace::new();
        let mut overlay = OverlayMount::new(vec![high, low.clone()], upper, work);
        overlay.idmap = Some(namespace.fd());
        // Other programs may mount or unmount meanwhile.
        let ours = dirs
            .0
            .path()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let mounts = || -> Vec<String> {
            let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
            // Other tests mount overlays in their own temporary directories.
            let of_ours = |line: &&str| {
                let elsewhere = line.contains(" - overlay ") && !line.contains("/.tmp");
                line.contains(&ours) || elsewhere
            };
            all.lines().filter(of_ours).map(str::to_owned).collect()
        };
        let before = mounts();
        // With this kernel's best method, and with the one for older kernels.
        for mount in [overlay.mount().unwrap(), overlay.mount_apart().unwrap()] {
            assert_eq!(fs::metadata(inside(&mount, "file")).unwrap().uid(), 100_000);
            assert_eq!(fs::metadata(low.join("file")).unwrap().uid(), 0);
            fs::write(inside(&mount, "new"), "new").unwrap();
            assert!(dirs.0.path().join("upper/new").exists());
        }
        assert_eq!(mounts(), before, "nothing is left where others see it");
    }
}
