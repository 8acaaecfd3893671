//! A store whose layers come as they are read, and who reads them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_image_store::{Config, Digest, Image, Images, PullRequest, Result};
use orlop_testkit::node::lazy_binary;
use orlop_testkit::process::processes;
use orlop_testkit::scratch::{mounts_below, unmount_below};
use orlop_testkit::{BuiltImage, FaultProxy, Registry};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, inside};

/// A registry behind a proxy, and a store with a server of lazy layers.
pub(crate) struct Scene {
    pub(crate) registry: Registry,
    pub(crate) proxy: FaultProxy,
    pub(crate) place: Place,
    pub(crate) guard: Guard,
}

/// Ends the server of lazy layers, which outlives the store.
pub(crate) struct Guard(PathBuf);

impl Guard {
    /// The servers that run.
    pub(crate) fn servers(&self) -> Vec<i32> {
        let directory = self.0.join("lazy");
        processes(&["orlop-lazy", &directory.to_string_lossy()])
    }

    pub(crate) fn kill(&self) {
        for pid in self.servers() {
            let pid = Pid::from_raw(pid).expect("a process");
            // It may have ended just now.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        unmount_below(&self.0);
        self.kill();
    }
}

/// Settings by which everything that can be is lazy.
pub(crate) fn lazily(config: &mut Config) {
    config.lazy.enabled = true;
    config.lazy.smallest = 0;
    config.lazy.program = lazy_binary();
    config.lazy.run_dir = config.root.parent().expect("a directory").join("lazy");
    config.lazy.timeout = Duration::from_secs(10);
    // Nothing comes that nobody reads.
    config.lazy.cache = 1;
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(set: impl FnOnce(&mut Config)) -> Self {
        let registry = Registry::start();
        let proxy = FaultProxy::before(registry.address());
        let place = Place::with(|config| {
            lazily(config);
            set(config);
        })
        .await;
        let guard = Guard(place.scratch.dir().to_owned());
        Self {
            registry,
            proxy,
            place,
            guard,
        }
    }

    /// Pushes an image, and pulls it.
    pub(crate) async fn pulled(&self, built: &BuiltImage) -> Image {
        self.registry.push(built, "app:1").await;
        self.pull("app:1").await.expect("pull the image")
    }

    pub(crate) async fn pull(&self, name: &str) -> Result<Image> {
        let request = PullRequest {
            reference: self.proxy.reference(name),
            ..PullRequest::default()
        };
        self.place.images.pull(request).await
    }

    pub(crate) async fn mounted(&self, image: &Image) -> OwnedFd {
        let mount = self.place.images.mount_read_only(&image.id).await;
        mount.expect("mount the image")
    }

    /// Reads a file on another thread: what is read may have to be fetched by this one.
    pub(crate) async fn reads(&self, mount: &OwnedFd, path: &str) -> std::io::Result<Vec<u8>> {
        read(&inside(mount, path)).await
    }

    /// Whether layers are served: who serves them may outlive that for as long as any mount namespace of the
    /// machine has a copy of what was mounted.
    pub(crate) fn is_served(&self) -> bool {
        !mounts_below(&self.place.config.root.join("lazy")).is_empty()
    }

    /// How much of the image is here; nothing once it is whole.
    pub(crate) async fn here(&self, image: &Image) -> Option<(u64, u64)> {
        let here = self.place.images.here(&image.id).await.expect("look at it");
        here.map(|here| (here.bytes, here.of))
    }

    /// The names on disk of an image's layers, top first.
    pub(crate) fn layers(&self, image: &Image) -> Vec<PathBuf> {
        let dirs = self.place.images.layer_dirs(&image.id).expect("its layers");
        let layers = self.place.config.root.join("layers");
        let own = |dir: &PathBuf| layers.join(dir.file_name().expect("a name"));
        dirs.iter().map(own).collect()
    }

    /// Waits until all layers are files of their own.
    pub(crate) async fn until_ordinary(&self, image: &Image) {
        let layers = self.layers(image);
        let is_file = |layer: &PathBuf| layer.join("fs.erofs").exists();
        crate::support::until("layers are files", || layers.iter().all(is_file)).await;
    }

    pub(crate) async fn until_whole(&self, image: &Image) {
        for _ in 0..2000 {
            if self.here(image).await.is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("waited in vain until all is here");
    }
}

pub(crate) async fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || std::fs::read(path))
        .await
        .expect("a thread that reads")
}

/// What is told of a file, and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    links: u64,
    size: u64,
    device: u64,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    content: Option<Digest>,
    target: Option<PathBuf>,
}

/// What formats put beside the files of a layer.
const BESIDE: [&str; 3] = [
    "stargz.index.json",
    ".prefetch.landmark",
    ".no.prefetch.landmark",
];

/// Everything in a mounted image, by its path.
pub(crate) async fn everything(mount: &OwnedFd) -> BTreeMap<PathBuf, Facts> {
    let root = inside(mount, "");
    tokio::task::spawn_blocking(move || {
        let mut found = BTreeMap::new();
        let mut left = vec![root.clone()];
        while let Some(path) = left.pop() {
            let own = path.strip_prefix(&root).expect("below it").to_owned();
            if BESIDE
                .iter()
                .any(|name| own.as_os_str() == OsStr::new(name))
            {
                continue;
            }
            let facts = facts(&path, own.as_os_str().is_empty());
            if facts.mode & 0o170_000 == 0o040_000 {
                let entries = std::fs::read_dir(&path).expect("list a directory");
                left.extend(entries.map(|entry| entry.expect("an entry").path()));
            }
            found.insert(own, facts);
        }
        found
    })
    .await
    .expect("a thread that reads")
}

fn facts(path: &Path, is_root: bool) -> Facts {
    let look = std::fs::symlink_metadata(path).expect("look at a file");
    let is_file = look.is_file();
    let is_device = look.file_type().is_char_device() || look.file_type().is_block_device();
    let is_link = look.is_symlink();
    Facts {
        mode: look.mode(),
        owner: (look.uid(), look.gid()),
        // No layer describes its root.
        mtime: if is_root {
            (0, 0)
        } else {
            (look.mtime(), look.mtime_nsec())
        },
        links: if look.is_dir() { 0 } else { look.nlink() },
        size: if is_file || is_link { look.size() } else { 0 },
        device: if is_device { look.rdev() } else { 0 },
        xattrs: xattrs(path),
        content: is_file.then(|| Digest::of(&std::fs::read(path).expect("read a file"))),
        target: is_link.then(|| std::fs::read_link(path).expect("read a link")),
    }
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut names[..]).expect("list attributes");
    let names = names[..length].split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty());
    names
        .map(|name| {
            let mut value = vec![0; 4096];
            let length = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("an attribute");
            value.truncate(length);
            (name.to_vec(), value)
        })
        .collect()
}

/// Says which paths differ.
pub(crate) fn assert_same(
    found: &BTreeMap<PathBuf, Facts>,
    expected: &BTreeMap<PathBuf, Facts>,
    what: &str,
) {
    for (path, facts) in expected {
        assert_eq!(found.get(path), Some(facts), "{what}: {}", path.display());
    }
    let more: Vec<_> = found
        .keys()
        .filter(|path| !expected.contains_key(*path))
        .collect();
    assert!(more.is_empty(), "{what}: {more:?}");
}

/// The same image as a store has it that fetches it whole.
pub(crate) async fn unpacked(reference: &str) -> (Place, OwnedFd) {
    let place = Place::open().await;
    let image = place.pull(reference).await;
    let image = image.expect("pull it whole");
    let mount = place.images.mount_read_only(&image.id).await;
    let mount = mount.expect("mount it");
    (place, mount)
}

/// Whether any of this can be tried here.
pub(crate) fn can() -> Result<(), String> {
    match std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
    {
        Ok(_) if rustix::process::geteuid().is_root() => Ok(()),
        Ok(_) => Err("needs root".to_owned()),
        Err(error) => Err(format!("needs /dev/fuse: {error}")),
    }
}

/// Opens the store again as its next process would.
pub(crate) async fn reopened(scene: &mut Scene) -> &Images {
    scene.place.reopen().await;
    &scene.place.images
}
