//! A layer as a reproducible tar archive.

use std::process::Command;
use std::sync::OnceLock;

use tar::{EntryType, Header};

use crate::machine;

/// A layer being written. Paths are relative; parent directories are not created implicitly.
#[allow(
    missing_debug_implementations,
    reason = "an archive under way has nothing to show"
)]
pub struct Layer {
    tar: tar::Builder<Vec<u8>>,
    owner: (u64, u64),
}

impl Layer {
    /// Creates an empty layer.
    pub fn new() -> Self {
        Self {
            tar: tar::Builder::new(Vec::new()),
            owner: (0, 0),
        }
    }

    /// Creates a small root filesystem with busybox-static: a shell and all its applets in `/bin`, users `root`,
    /// `daemon`, `www-data` and `sailor` (1000:1000, also in group `deck`, 2000).
    pub fn busybox() -> Self {
        static TREE: OnceLock<Vec<u8>> = OnceLock::new();
        let mut layer = Self::new();
        // Concatenated archives without end markers between them are one archive.
        layer
            .tar
            .get_mut()
            .extend_from_slice(TREE.get_or_init(busybox_tree));
        layer
    }

    /// Sets the owner of the following entries.
    pub fn owner(mut self, uid: u64, gid: u64) -> Self {
        self.owner = (uid, gid);
        self
    }

    /// Adds a directory.
    pub fn dir(self, path: &str, mode: u32) -> Self {
        self.entry(EntryType::Directory, path, mode, &[])
    }

    /// Adds a regular file.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>, mode: u32) -> Self {
        self.entry(EntryType::Regular, path, mode, content.as_ref())
    }

    /// Adds a file of `size` reproducible incompressible bytes.
    pub fn noise(self, path: &str, size: usize) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let content: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .flatten()
        .take(size)
        .collect();
        self.file(path, content, 0o644)
    }

    /// Adds a symbolic link.
    pub fn symlink(self, path: &str, target: &str) -> Self {
        self.link(EntryType::Symlink, path, target, 0o777)
    }

    /// Adds a hard link to an entry of this layer; both get the mode.
    pub fn hardlink(self, path: &str, target: &str, mode: u32) -> Self {
        self.link(EntryType::Link, path, target, mode)
    }

    /// Adds a named pipe.
    pub fn fifo(self, path: &str, mode: u32) -> Self {
        self.entry(EntryType::Fifo, path, mode, &[])
    }

    /// Adds a character device.
    pub fn device(mut self, path: &str, major: u32, minor: u32, mode: u32) -> Self {
        let mut header = self.header(EntryType::Char, mode, 0);
        header.set_device_major(major).expect("a major number fits");
        header.set_device_minor(minor).expect("a minor number fits");
        self.tar
            .append_data(&mut header, path, &[][..])
            .expect("write to memory");
        self
    }

    /// Adds a whiteout, which removes `path` of lower layers.
    pub fn whiteout(self, path: &str) -> Self {
        let marker = match path.rsplit_once('/') {
            Some((parent, name)) => format!("{parent}/.wh.{name}"),
            None => format!(".wh.{path}"),
        };
        self.file(&marker, "", 0o644)
    }

    /// Adds an opaque marker, which hides the content of directory `path` in lower layers.
    pub fn opaque(self, path: &str) -> Self {
        self.file(&format!("{path}/.wh..wh..opq"), "", 0o644)
    }

    /// Sets an extended attribute of the following entry.
    pub fn xattr(mut self, name: &str, value: &[u8]) -> Self {
        let key = format!("SCHILY.xattr.{name}");
        self.tar
            .append_pax_extensions([(key.as_str(), value)])
            .expect("write to memory");
        self
    }

    /// Adds an entry with unchecked name and link target, each at most 100 bytes: values that tar libraries refuse
    /// (`..`, absolute paths, NUL-free rubbish).
    pub fn raw(mut self, kind: EntryType, name: &[u8], target: &[u8], content: &[u8]) -> Self {
        let mut header = self.header(kind, 0o644, content.len());
        let fields = header.as_old_mut();
        fields.name[..name.len()].copy_from_slice(name);
        fields.linkname[..target.len()].copy_from_slice(target);
        header.set_cksum();
        self.tar.append(&header, content).expect("write to memory");
        self
    }

    /// Returns the archive.
    pub fn tar(self) -> Vec<u8> {
        self.tar.into_inner().expect("finish an archive in memory")
    }

    fn entry(mut self, kind: EntryType, path: &str, mode: u32, content: &[u8]) -> Self {
        let mut header = self.header(kind, mode, content.len());
        self.tar
            .append_data(&mut header, path, content)
            .expect("write to memory");
        self
    }

    fn link(mut self, kind: EntryType, path: &str, target: &str, mode: u32) -> Self {
        let mut header = self.header(kind, mode, 0);
        self.tar
            .append_link(&mut header, path, target)
            .expect("write to memory");
        self
    }

    fn header(&self, kind: EntryType, mode: u32, size: usize) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(self.owner.0);
        header.set_gid(self.owner.1);
        header.set_size(size as u64);
        header.set_mtime(1_700_000_000);
        header
    }
}

impl Default for Layer {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the entries of [`Layer::busybox`] without an end marker.
fn busybox_tree() -> Vec<u8> {
    let busybox = machine::program("busybox").unwrap_or_else(|e| panic!("{e}"));
    let program = std::fs::read(&busybox).expect("read busybox");
    let applets = Command::new(&busybox)
        .arg("--list")
        .output()
        .expect("run busybox")
        .stdout;
    let applets = String::from_utf8(applets).expect("applets have plain names");
    let mut layer = Layer::new();
    for dir in [
        "bin", "dev", "etc", "home", "proc", "sys", "usr", "usr/bin", "var", "var/www",
    ] {
        layer = layer.dir(dir, 0o755);
    }
    layer = layer
        .dir("root", 0o700)
        .dir("tmp", 0o1777)
        .file("bin/busybox", program, 0o755)
        .file("etc/passwd", PASSWD, 0o644)
        .file("etc/group", GROUP, 0o644);
    for applet in applets.lines().filter(|name| *name != "busybox") {
        layer = layer.symlink(&format!("bin/{applet}"), "busybox");
    }
    std::mem::take(layer.tar.get_mut())
}

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
    daemon:x:1:1:daemon:/:/bin/false\n\
    www-data:x:33:33:www-data:/var/www:/bin/false\n\
    sailor:x:1000:1000:sailor:/home:/bin/sh\n";
const GROUP: &str = "root:x:0:\ndaemon:x:1:\nwww-data:x:33:\nsailor:x:1000:\ndeck:x:2000:sailor\n";
