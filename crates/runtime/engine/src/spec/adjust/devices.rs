//! NRI adjustments of device nodes, device access rules and network devices.

use orlop_nri::v1alpha1::{LinuxContainerAdjustment, LinuxDevice};
use orlop_oci_types::{Device, DeviceKind, DeviceRule, Linux, NetDevice, Spec};

use super::field;
use crate::spec::Error;
use crate::spec::clean_path::clean;

pub(super) fn adjust(wanted: &LinuxContainerAdjustment, spec: &mut Spec) -> Result<(), Error> {
    let linux = spec.linux.get_or_insert_default();
    for device in &wanted.devices {
        if let Some(path) = orlop_nri::removed(&device.path) {
            linux.devices.retain(|own| own.path != path);
        } else {
            add(device, linux)?;
        }
    }
    for name in wanted.net_devices.keys() {
        if let Some(name) = orlop_nri::removed(name) {
            linux.net_devices.remove(name);
        }
    }
    for (name, device) in &wanted.net_devices {
        if orlop_nri::removed(name).is_none() {
            let device = NetDevice {
                name: device.name.clone(),
            };
            linux.net_devices.insert(name.clone(), device);
        }
    }
    Ok(())
}

fn add(wanted: &LinuxDevice, linux: &mut Linux) -> Result<(), Error> {
    if !wanted.path.starts_with('/') {
        let problem = format!("{:?} is not an absolute path", wanted.path);
        return Err(Error::invalid(field("linux.devices.path"), problem));
    }
    let path = clean(&wanted.path);
    let kind = kind(&wanted.r#type, "linux.devices.type")?;
    linux.devices.retain(|own| own.path != path);
    linux.devices.push(Device {
        path,
        kind,
        major: wanted.major,
        minor: wanted.minor,
        file_mode: wanted.file_mode.map(|mode| mode.value & 0o7777),
        uid: wanted.uid.map(|id| id.value),
        gid: wanted.gid.map(|id| id.value),
    });
    if kind != DeviceKind::Fifo {
        let access = if kind == DeviceKind::Block {
            "rwm"
        } else {
            "rw"
        };
        let resources = linux.resources.get_or_insert_default();
        resources.devices.push(DeviceRule {
            allow: true,
            kind: Some(kind),
            major: Some(wanted.major),
            minor: Some(wanted.minor),
            access: access.to_owned(),
        });
    }
    Ok(())
}

pub(super) fn kind(text: &str, name: &str) -> Result<DeviceKind, Error> {
    match text {
        "b" => Ok(DeviceKind::Block),
        "c" | "u" => Ok(DeviceKind::Char),
        "p" => Ok(DeviceKind::Fifo),
        "a" => Ok(DeviceKind::All),
        _ => {
            let problem = format!("{text:?} is not a device type; use b, c, u or p");
            Err(Error::invalid(field(name), problem))
        }
    }
}
