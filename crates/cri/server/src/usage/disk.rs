//! Names and sizes of the containers' file system and devices. They are the same for all containers and read once per
//! response.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use orlop_cri_api::pod_metrics::Samples;

/// The file system of the writable layers, and device names.
#[derive(Debug)]
pub struct Disk {
    root: Option<Root>,
    names: HashMap<(u32, u32), String>,
}

#[derive(Debug)]
struct Root {
    device: String,
    bytes: u64,
    inodes: u64,
    inodes_free: u64,
}

impl Disk {
    /// Reads the file system's usage. Blocks.
    pub fn at(root: &Path) -> Self {
        let mut disk = Self {
            root: None,
            names: HashMap::new(),
        };
        if let Ok(stat) = rustix::fs::statvfs(root) {
            let device = rustix::fs::stat(root).map(|stat| stat.st_dev);
            let device = device.unwrap_or_default();
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            disk.root = Some(Root {
                device: disk.name(major, minor).to_owned(),
                bytes: stat.f_blocks * stat.f_frsize,
                inodes: stat.f_files,
                inodes_free: stat.f_ffree,
            });
        }
        disk
    }

    /// Returns the name of a device.
    pub(super) fn name(&mut self, major: u32, minor: u32) -> &str {
        match self.names.entry((major, minor)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(look_up(major, minor)),
        }
    }

    /// Adds samples of the bytes that a container has written and of the space available.
    pub fn usage(&self, samples: &mut Samples, written: u64) {
        let Some(root) = &self.root else { return };
        let label = [root.device.as_str()];
        samples.add_with("container_fs_usage_bytes", &label, written);
        samples.add_with("container_fs_limit_bytes", &label, root.bytes);
        samples.add_with("container_fs_inodes_total", &label, root.inodes);
        samples.add_with("container_fs_inodes_free", &label, root.inodes_free);
    }
}

fn look_up(major: u32, minor: u32) -> String {
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
    let name = link
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    name.map_or_else(|| format!("{major}:{minor}"), |name| format!("/dev/{name}"))
}
