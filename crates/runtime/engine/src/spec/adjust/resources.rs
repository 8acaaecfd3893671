//! NRI adjustments of limits, classes and the cgroup.

use orlop_nri::v1alpha1::{
    LinuxContainerAdjustment, LinuxDeviceCgroup, LinuxMemoryPolicy, LinuxRdt, MpolMode,
};
use orlop_oci_types::{DeviceRule, IntelRdt, MemoryPolicy, Spec};

use super::devices::kind;
use super::{AdjustFacts, field};
use crate::spec::cgroup_parent::CgroupParent;
use crate::spec::{Error, plugin_resources, rdt, resources};

pub(super) fn adjust(
    wanted: &LinuxContainerAdjustment,
    facts: &AdjustFacts<'_>,
    spec: &mut Spec,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let linux = spec.linux.get_or_insert_default();
    if let Some(wanted) = &wanted.resources {
        let name = field("linux.resources");
        let before = linux.resources.take().unwrap_or_default();
        let change = plugin_resources::limits(wanted, facts.host, &name, warnings)?;
        let mut next = resources::updated(&before, &change);
        for rule in &wanted.devices {
            next.devices.push(device_rule(rule)?);
        }
        if let Some(class) = &wanted.blockio_class {
            next.block_io = match class.value.as_str() {
                "" => None,
                class => Some(block_io(class, facts)?),
            };
        }
        linux.resources = Some(next);
        if let Some(class) = &wanted.rdt_class {
            let name = field("linux.resources.rdt_class");
            linux.intel_rdt = match class.value.as_str() {
                "" => None,
                class => rdt::of_plugin(class, &name, facts.policy)?,
            };
        }
    }
    if let Some(wanted) = &wanted.rdt {
        allocation(wanted, &mut linux.intel_rdt);
    }
    if let Some(wanted) = &wanted.memory_policy {
        linux.memory_policy = memory_policy(wanted)?;
    }
    let path = &wanted.cgroups_path;
    if !path.is_empty() {
        let named = CgroupParent::named_by(path, facts.host.cgroup_driver);
        // In the root cgroup, killing the container would kill all other processes of the node.
        if named.is_none_or(|path| path.is_root()) {
            let problem = format!(
                "{path:?} is not a cgroup path; use a path, or slice:prefix:name with the systemd \
                 cgroup driver"
            );
            return Err(Error::invalid(field("linux.cgroups_path"), problem));
        }
        linux.cgroups_path.clone_from(path);
    }
    Ok(())
}

fn device_rule(wanted: &LinuxDeviceCgroup) -> Result<DeviceRule, Error> {
    let name = "linux.resources.devices";
    if wanted.access.len() > 3 || !wanted.access.chars().all(|letter| "rwm".contains(letter)) {
        let problem = format!("{:?} has letters other than r, w and m", wanted.access);
        return Err(Error::invalid(field(name), problem));
    }
    let kind = match wanted.r#type.as_str() {
        "" => None,
        text => Some(kind(text, name)?),
    };
    Ok(DeviceRule {
        allow: wanted.allow,
        kind,
        major: wanted.major.map(|number| number.value),
        minor: wanted.minor.map(|number| number.value),
        access: wanted.access.clone(),
    })
}

fn block_io(class: &str, facts: &AdjustFacts<'_>) -> Result<orlop_oci_types::BlockIo, Error> {
    let name = field("linux.resources.blockio_class");
    let Some(classes) = &facts.policy.block_io else {
        let problem =
            format!("class {class:?} does not exist: containers.blockio_config defines no classes");
        return Err(Error::unmet(name, problem));
    };
    if !facts.host.block_io {
        let problem = "this node has no cgroup controller for block IO (io or blkio)";
        return Err(Error::unmet(name, problem));
    }
    let limits = classes.limits(class);
    limits.map_err(|problem| Error::unmet(name, problem))
}

fn allocation(wanted: &LinuxRdt, own: &mut Option<IntelRdt>) {
    if wanted.remove {
        *own = None;
    }
    if let Some(class) = &wanted.clos_id {
        own.get_or_insert_default().clos_id.clone_from(&class.value);
    }
    if let Some(schemata) = &wanted.schemata {
        own.get_or_insert_default()
            .schemata
            .clone_from(&schemata.value);
    }
    if let Some(monitoring) = &wanted.enable_monitoring {
        own.get_or_insert_default().enable_monitoring = monitoring.value;
    }
}

fn memory_policy(wanted: &LinuxMemoryPolicy) -> Result<Option<MemoryPolicy>, Error> {
    let mode = wanted.mode();
    if mode == MpolMode::MpolDefault && wanted.nodes.is_empty() {
        return Ok(None);
    }
    Ok(Some(MemoryPolicy {
        mode: mode.as_str_name().to_owned(),
        nodes: resources::list(&wanted.nodes, &field("linux.memory_policy.nodes"))?,
        flags: wanted
            .flags()
            .map(|flag| flag.as_str_name().to_owned())
            .collect(),
    }))
}
