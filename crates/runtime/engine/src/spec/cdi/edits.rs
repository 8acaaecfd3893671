//! Applying a CDI device's edits to a specification.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use orlop_oci_types as oci;
use orlop_oci_types::{
    self, Device, DeviceKind, DeviceRule, Hooks, IntelRdt, Linux, NetDevice, Process, Spec,
};
use rustix::fs::{major, minor};

use super::FIELD;
use super::schema::{DeviceNode, Edits, Hook, Mount};
use crate::spec::Error;
use crate::spec::clean_path::clean;

/// CDI's value for a device node that the container may not use.
const NO_PERMISSIONS: &str = "none";

/// Applies the edits; `name` is the device's, for messages.
pub(super) fn apply(edits: &Edits, name: &str, spec: &mut Spec) -> Result<(), Error> {
    let process = spec.process.get_or_insert_default();
    let linux = spec.linux.get_or_insert_default();
    for entry in &edits.env {
        set_variable(entry, name, process)?;
    }
    for node in &edits.device_nodes {
        add_node(node, name, process, linux)?;
    }
    for device in &edits.net_devices {
        let inside = NetDevice {
            name: device.name.clone(),
        };
        linux
            .net_devices
            .insert(device.host_interface_name.clone(), inside);
    }
    for id in edits.additional_gids.iter().filter(|id| **id != 0) {
        if !process.user.additional_gids.contains(id) {
            process.user.additional_gids.push(*id);
        }
    }
    if let Some(rdt) = &edits.intel_rdt {
        linux.intel_rdt = Some(IntelRdt {
            clos_id: rdt.clos_id.clone(),
            schemata: rdt.schemata.clone(),
            l3_cache_schema: rdt.l3_cache_schema.clone(),
            mem_bw_schema: rdt.mem_bw_schema.clone(),
            enable_monitoring: rdt.enable_monitoring,
        });
    }
    for mount in &edits.mounts {
        let mount = to_mount(mount, name, linux)?;
        spec.mounts
            .retain(|own| own.destination != mount.destination);
        spec.mounts.push(mount);
    }
    if !edits.mounts.is_empty() {
        // Deeper paths come later; otherwise a mount above would hide them.
        spec.mounts
            .sort_by_key(|mount| mount.destination.matches('/').count());
    }
    for hook in &edits.hooks {
        add_hook(hook, name, spec.hooks.get_or_insert_default())?;
    }
    Ok(())
}

fn set_variable(entry: &str, name: &str, process: &mut Process) -> Result<(), Error> {
    let Some((variable, _)) = entry
        .split_once('=')
        .filter(|(variable, _)| !variable.is_empty())
    else {
        return Err(broken(
            name,
            format!("{entry:?} is not an environment variable (NAME=value)"),
        ));
    };
    process
        .env
        .retain(|own| own.split_once('=').is_none_or(|(own, _)| own != variable));
    process.env.push(entry.to_owned());
    Ok(())
}

fn add_node(
    node: &DeviceNode,
    name: &str,
    process: &Process,
    linux: &mut Linux,
) -> Result<(), Error> {
    let mut device = to_device(node, name)?;
    // A device node without an owner gets the container's user, who could not use it otherwise.
    device.uid = node.uid.or(Some(process.user.uid).filter(|uid| *uid > 0));
    device.gid = node.gid.or(Some(process.user.gid).filter(|gid| *gid > 0));
    let access = match node.permissions.as_str() {
        "" => "rwm",
        NO_PERMISSIONS => "",
        own if own.chars().all(|letter| "rwm".contains(letter)) => own,
        own => {
            return Err(broken(
                name,
                format!("{own:?} has letters other than r, w and m"),
            ));
        }
    };
    if device.kind != DeviceKind::Fifo && !access.is_empty() {
        linux
            .resources
            .get_or_insert_default()
            .devices
            .push(DeviceRule {
                allow: true,
                kind: Some(device.kind),
                major: Some(device.major),
                minor: Some(device.minor),
                access: access.to_owned(),
            });
    }
    linux.devices.retain(|own| own.path != device.path);
    linux.devices.push(device);
    Ok(())
}

/// Fills missing fields of a CDI device node from the host's device.
fn to_device(node: &DeviceNode, name: &str) -> Result<Device, Error> {
    if !node.path.starts_with('/') {
        return Err(broken(
            name,
            format!("{:?} is not an absolute path", node.path),
        ));
    }
    let mut device = Device {
        path: clean(&node.path),
        kind: DeviceKind::Char,
        major: node.major,
        minor: node.minor,
        file_mode: node.file_mode,
        uid: None,
        gid: None,
    };
    let given = match node.kind.as_str() {
        "" => None,
        "b" => Some(DeviceKind::Block),
        "c" | "u" => Some(DeviceKind::Char),
        "p" => Some(DeviceKind::Fifo),
        other => return Err(broken(name, format!("{other:?} is not a device type"))),
    };
    if let Some(kind) = given {
        device.kind = kind;
        if kind == DeviceKind::Fifo || node.major != 0 {
            return Ok(device);
        }
    }
    let host = if node.host_path.is_empty() {
        &node.path
    } else {
        &node.host_path
    };
    let meta = fs::metadata(host).map_err(|error| {
        Error::io(
            FIELD,
            format!("inspecting {host:?} of the device {name:?}"),
            error,
        )
    })?;
    let found = match meta.file_type() {
        kind if kind.is_block_device() => DeviceKind::Block,
        kind if kind.is_char_device() => DeviceKind::Char,
        kind if kind.is_fifo() => DeviceKind::Fifo,
        _ => return Err(broken(name, format!("{host:?} is not a device"))),
    };
    if given.is_some_and(|given| given != found) {
        return Err(broken(
            name,
            format!("{host:?} is a device of another type"),
        ));
    }
    device.kind = found;
    device.major = major(meta.rdev()).into();
    device.minor = minor(meta.rdev()).into();
    device.file_mode = device.file_mode.or(Some(meta.mode() & 0o7777));
    Ok(device)
}

fn to_mount(mount: &Mount, name: &str, linux: &Linux) -> Result<oci::Mount, Error> {
    if !mount.container_path.starts_with('/') {
        return Err(broken(
            name,
            format!("{:?} is not an absolute path", mount.container_path),
        ));
    }
    let kind = if mount.kind.is_empty() {
        "bind"
    } else {
        &mount.kind
    };
    let mapped = kind == "bind";
    let mappings = |of: &Vec<oci::IdMapping>| if mapped { of.clone() } else { Vec::new() };
    Ok(oci::Mount {
        destination: clean(&mount.container_path),
        kind: kind.to_owned(),
        source: mount.host_path.clone(),
        options: mount.options.clone(),
        uid_mappings: mappings(&linux.uid_mappings),
        gid_mappings: mappings(&linux.gid_mappings),
    })
}

fn add_hook(hook: &Hook, name: &str, hooks: &mut Hooks) -> Result<(), Error> {
    let list = match hook.hook_name.as_str() {
        "prestart" => &mut hooks.prestart,
        "createRuntime" => &mut hooks.create_runtime,
        "createContainer" => &mut hooks.create_container,
        "startContainer" => &mut hooks.start_container,
        "poststart" => &mut hooks.poststart,
        "poststop" => &mut hooks.poststop,
        other => return Err(broken(name, format!("{other:?} is not a hook type"))),
    };
    if !hook.path.starts_with('/') {
        return Err(broken(
            name,
            format!("{:?} is not an absolute path", hook.path),
        ));
    }
    list.push(oci::Hook {
        path: hook.path.clone(),
        args: hook.args.clone(),
        env: hook.env.clone(),
        timeout: hook.timeout,
    });
    Ok(())
}

fn broken(name: &str, problem: String) -> Error {
    Error::unmet(
        FIELD,
        format!("the CDI specification of device {name:?}: {problem}"),
    )
}
