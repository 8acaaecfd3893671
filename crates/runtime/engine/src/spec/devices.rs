//! Device nodes of a container and their access rules.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use orlop_cri_api::v1;
use orlop_oci_types::{Device, DeviceKind, DeviceRule};
use rustix::fs::{major, minor};

use super::Error;
use super::clean_path::clean;

/// Parts of `/dev` that are separate filesystems or belong to one process.
const NOT_SHARED: [&str; 7] = ["pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"];

/// Limit of the depth of device directories.
const MAX_DEPTH: usize = 32;

/// Devices and rules of a container.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Devices {
    pub(super) nodes: Vec<Device>,
    pub(super) rules: Vec<DeviceRule>,
}

/// The devices of a container besides those its runtime makes for every one (`null`, `zero`, `full`,
/// `random`, `urandom`, `tty`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant {
    /// Whether it gets all devices of the node.
    pub(super) host: bool,
    /// Owner of requested devices, instead of the node's.
    pub(super) uid: Option<u32>,
    /// Group of requested devices, instead of the node's.
    pub(super) gid: Option<u32>,
}

/// A requested device, or a directory of devices.
#[derive(Debug)]
pub(super) struct Asked {
    field: String,
    host_path: String,
    container_path: String,
    access: String,
}

impl Asked {
    /// Validates the devices of a request.
    pub(super) fn read(requested: &[v1::Device]) -> Result<Vec<Self>, Error> {
        let devices = requested.iter().enumerate();
        devices
            .map(|(index, device)| Self::one(device, format!("config.devices[{index}]")))
            .collect()
    }

    fn one(device: &v1::Device, field: String) -> Result<Self, Error> {
        let absolute = |path: &str, name: &str| {
            if path.starts_with('/') && !path.contains('\0') {
                return Ok(());
            }
            let problem = format!("{path:?} is not an absolute path");
            Err(Error::invalid(format!("{field}.{name}"), problem))
        };
        let access = access(&device.permissions, &field)?;
        absolute(&device.host_path, "host_path")?;
        let container_path = match device.container_path.as_str() {
            "" => &device.host_path,
            path => {
                absolute(path, "container_path")?;
                path
            }
        };
        Ok(Self {
            host_path: device.host_path.clone(),
            container_path: clean(container_path),
            access,
            field,
        })
    }
}

/// Returns the requested devices, and all others if the container is privileged.
pub(super) fn list(asked: Vec<Asked>, grant: Grant) -> Result<Devices, Error> {
    let nothing = DeviceRule {
        allow: false,
        access: "rwm".to_owned(),
        ..DeviceRule::default()
    };
    let mut devices = Devices {
        nodes: Vec::new(),
        rules: vec![nothing],
    };
    for device in asked {
        devices.request(device, grant)?;
    }
    if grant.host {
        let mut found = Vec::new();
        walk(Path::new("/dev"), "/dev", 0, &mut found)
            .map_err(|error| Error::io("config.devices", "listing /dev", error))?;
        for device in found {
            devices.add(device);
        }
        let everything = DeviceRule {
            allow: true,
            access: "rwm".to_owned(),
            ..DeviceRule::default()
        };
        devices.rules.push(everything);
    }
    Ok(devices)
}

impl Devices {
    fn request(&mut self, asked: Asked, grant: Grant) -> Result<(), Error> {
        let Asked {
            field,
            host_path,
            container_path,
            access,
        } = asked;
        let host = resolve(&host_path, &field)?;
        let mut found = Vec::new();
        walk(&host, &container_path, 0, &mut found).map_err(|error| {
            Error::io(
                &field,
                format!("inspecting the device {}", host.display()),
                error,
            )
        })?;
        if found.is_empty() {
            let problem = format!("{} is not a device and contains no devices", host.display());
            return Err(Error::invalid(format!("{field}.host_path"), problem));
        }
        for mut device in found {
            device.uid = grant.uid.or(device.uid);
            device.gid = grant.gid.or(device.gid);
            self.rules.push(DeviceRule {
                allow: true,
                kind: Some(device.kind),
                major: Some(device.major),
                minor: Some(device.minor),
                access: access.clone(),
            });
            self.add(device);
        }
        Ok(())
    }

    /// Adds a device. The first one of a path stays: requested devices come before the others.
    fn add(&mut self, device: Device) {
        if !self.nodes.iter().any(|own| own.path == device.path) {
            self.nodes.push(device);
        }
    }
}

fn access(permissions: &str, field: &str) -> Result<String, Error> {
    if permissions.is_empty() {
        return Ok("rwm".to_owned());
    }
    if permissions.len() > 3 || !permissions.chars().all(|letter| "rwm".contains(letter)) {
        let problem = format!("{permissions:?} has letters other than r, w and m");
        return Err(Error::invalid(format!("{field}.permissions"), problem));
    }
    Ok(permissions.to_owned())
}

fn resolve(path: &str, field: &str) -> Result<PathBuf, Error> {
    let field = || format!("{field}.host_path");
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::not_found(
            field(),
            format!("device {path:?} does not exist"),
        )),
        found => found.map_err(|error| Error::io(field(), format!("looking up {path:?}"), error)),
    }
}

/// Finds a device, or the devices below a directory, each with its path in the container.
fn walk(host: &Path, container: &str, depth: usize, found: &mut Vec<Device>) -> io::Result<()> {
    let meta = fs::symlink_metadata(host)?;
    if let Some(device) = device(&meta, container) {
        found.push(device);
        return Ok(());
    }
    if !meta.is_dir() || depth > MAX_DEPTH {
        return Ok(());
    }
    let mut names: Vec<_> = fs::read_dir(host)?.collect::<Result<_, _>>()?;
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        // The console is the node's; a container with a terminal gets its own.
        if name == "console" || (is_dir && NOT_SHARED.contains(&name)) {
            continue;
        }
        match walk(
            &entry.path(),
            &format!("{container}/{name}"),
            depth + 1,
            found,
        ) {
            // Devices may disappear meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            walked => walked?,
        }
    }
    Ok(())
}

fn device(meta: &fs::Metadata, path: &str) -> Option<Device> {
    let kind = match meta.file_type() {
        kind if kind.is_char_device() => DeviceKind::Char,
        kind if kind.is_block_device() => DeviceKind::Block,
        _ => return None,
    };
    Some(Device {
        path: path.to_owned(),
        kind,
        major: major(meta.rdev()).into(),
        minor: minor(meta.rdev()).into(),
        file_mode: Some(meta.mode() & 0o7777),
        uid: Some(meta.uid()),
        gid: Some(meta.gid()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Grant = Grant {
        host: false,
        uid: None,
        gid: None,
    };

    fn list(requested: &[v1::Device], grant: Grant) -> Result<Devices, Error> {
        super::list(Asked::read(requested)?, grant)
    }

    fn request(host: &str, container: &str, permissions: &str) -> v1::Device {
        v1::Device {
            host_path: host.into(),
            container_path: container.into(),
            permissions: permissions.into(),
        }
    }

    #[test]
    fn nothing_is_allowed_without_a_request() {
        let devices = list(&[], PLAIN).unwrap();
        assert!(devices.nodes.is_empty());
        assert_eq!(devices.rules.len(), 1);
        assert!(!devices.rules[0].allow);
    }

    #[test]
    fn a_requested_device_has_its_node_and_its_rule() {
        let devices = list(&[request("/dev/null", "/dev/x", "r")], PLAIN).unwrap();
        let node = &devices.nodes[0];
        assert_eq!(
            (node.path.as_str(), node.kind, node.major, node.minor),
            ("/dev/x", DeviceKind::Char, 1, 3)
        );
        let rule = &devices.rules[1];
        assert_eq!(
            (rule.allow, rule.access.as_str(), rule.minor),
            (true, "r", Some(3))
        );
    }

    #[test]
    fn a_directory_gives_all_devices_below_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        for (name, number) in [("a", 3), ("sub/b", 5)] {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                dir.path().join(name),
                rustix::fs::FileType::CharacterDevice,
                rustix::fs::Mode::from_raw_mode(0o640),
                rustix::fs::makedev(1, number),
            )
            .unwrap();
        }
        let devices = list(
            &[request(dir.path().to_str().unwrap(), "/dev/all", "")],
            PLAIN,
        )
        .unwrap();
        let paths: Vec<_> = devices
            .nodes
            .iter()
            .map(|node| node.path.as_str())
            .collect();
        assert_eq!(paths, ["/dev/all/a", "/dev/all/sub/b"]);
        assert_eq!(devices.nodes[0].file_mode, Some(0o640));
        assert!(devices.rules[1..].iter().all(|rule| rule.access == "rwm"));
    }

    #[test]
    fn privileged_containers_have_the_nodes_devices() {
        let devices = list(
            &[],
            Grant {
                host: true,
                ..PLAIN
            },
        )
        .unwrap();
        assert!(devices.nodes.iter().any(|node| node.path == "/dev/null"));
        assert!(
            !devices
                .nodes
                .iter()
                .any(|node| { node.path == "/dev/console" || node.path.starts_with("/dev/pts/") })
        );
        let last = devices.rules.last().unwrap();
        assert!(last.allow && last.kind.is_none() && last.major.is_none());
    }

    #[test]
    fn ownership_can_follow_the_containers_user() {
        let grant = Grant {
            uid: Some(1000),
            ..PLAIN
        };
        let devices = list(&[request("/dev/null", "", "")], grant).unwrap();
        assert_eq!(
            (devices.nodes[0].uid, devices.nodes[0].gid),
            (Some(1000), Some(0))
        );
        assert_eq!(devices.nodes[0].path, "/dev/null");
    }

    #[test]
    fn bad_requests_name_their_field() {
        for (bad, field) in [
            (
                request("/dev/null", "/dev/x", "rx"),
                "config.devices[0].permissions: ",
            ),
            (
                request("/dev/null", "dev/x", "r"),
                "config.devices[0].container_path: ",
            ),
            (
                request("null", "/dev/x", "r"),
                "config.devices[0].host_path: ",
            ),
            (
                request("/dev/nonexistent", "/dev/x", "r"),
                "config.devices[0].host_path: ",
            ),
            (
                request("/etc/passwd", "/dev/x", "r"),
                "config.devices[0].host_path: ",
            ),
        ] {
            let error = list(&[bad], PLAIN).unwrap_err().to_string();
            assert!(error.starts_with(field), "{error}");
        }
    }
}
