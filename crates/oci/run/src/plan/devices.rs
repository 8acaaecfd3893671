//! Device nodes of a container.

use std::ffi::CString;
use std::path::Path;

use orlop_oci_types::{Device, DeviceKind, Linux};
use rustix::fs::{Dev, FileType, Gid, Mode, Uid, makedev};

use super::mounts::relative;
use super::text::c_string;
use super::tree::{Copied, Tree};
use crate::error::{Error, Result, While};
use crate::sys::MountAttr;

/// A device node to be created.
#[derive(Debug)]
pub(crate) struct DeviceStep {
    /// The path below the root.
    pub(crate) target: CString,
    pub(crate) what: DeviceWhat,
}

/// The way to create a device node.
#[derive(Debug)]
pub(crate) enum DeviceWhat {
    Node {
        kind: FileType,
        device: Dev,
        mode: Mode,
        uid: Uid,
        gid: Gid,
    },
    /// A bind mount of the host's node, because a user namespace cannot create any.
    Tree(Tree),
}

/// The default devices (`config-linux.md`, "Default Devices").
pub(crate) const DEFAULT: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

/// Returns all device nodes of a container. `bound` is set if they are the host's, and says where those are copied.
pub(crate) fn devices(linux: &Linux, bound: Option<Copied>) -> Result<Vec<DeviceStep>> {
    let mut steps = Vec::new();
    let given = |path: &str| {
        linux
            .devices
            .iter()
            .any(|device| relative(&device.path) == path)
    };
    for (name, major, minor) in DEFAULT {
        let target = format!("dev/{name}");
        if given(&target) {
            continue;
        }
        let what = if let Some(copied) = bound {
            host_node(&Path::new("/dev").join(name), copied)?
        } else {
            DeviceWhat::Node {
                kind: FileType::CharacterDevice,
                device: makedev(major, minor),
                mode: Mode::from_raw_mode(0o666),
                uid: Uid::ROOT,
                gid: Gid::ROOT,
            }
        };
        steps.push(DeviceStep {
            target: c_string(target, "linux.devices")?,
            what,
        });
    }
    for (index, device) in linux.devices.iter().enumerate() {
        let step =
            step(device, bound).map_err(|error| error.within(format!("linux.devices[{index}]")))?;
        steps.extend(step);
    }
    Ok(steps)
}

fn host_node(path: &Path, copied: Copied) -> Result<DeviceWhat> {
    let tree = Tree::open(path, MountAttr::default(), copied);
    tree.map(DeviceWhat::Tree)
        .doing(|| path.display().to_string())
}

fn step(device: &Device, bound: Option<Copied>) -> Result<Option<DeviceStep>> {
    let target = relative(&device.path);
    // The kernel's `devpts` provides it.
    if target == "dev/ptmx" {
        return Ok(None);
    }
    if !device.path.starts_with('/') || target.is_empty() {
        return Err(Error::new(format!(
            "path: {:?} is not absolute",
            device.path
        )));
    }
    let kind = match device.kind {
        DeviceKind::Char => FileType::CharacterDevice,
        DeviceKind::Block => FileType::BlockDevice,
        DeviceKind::Fifo => FileType::Fifo,
        DeviceKind::All => {
            return Err(Error::new(
                "type: a device node needs the type b, c, u or p",
            ));
        }
    };
    let what = if let Some(copied) = bound {
        host_node(Path::new(&device.path), copied)?
    } else {
        let number = |value: i64, what: &str| {
            u32::try_from(value)
                .map_err(|_| Error::new(format!("{what}: {value} is not a valid device number")))
        };
        DeviceWhat::Node {
            kind,
            device: makedev(
                number(device.major, "major")?,
                number(device.minor, "minor")?,
            ),
            mode: Mode::from_raw_mode(device.file_mode.unwrap_or(0o666) & 0o7777),
            uid: Uid::from_raw(device.uid.unwrap_or(0)),
            gid: Gid::from_raw(device.gid.unwrap_or(0)),
        }
    };
    Ok(Some(DeviceStep {
        target: c_string(target, "path")?,
        what,
    }))
}
