//! Devices of the Container Device Interface: vendors' files describe what a container needs to use a
//! device, and requests name the device.

mod edits;
mod registry;
mod schema;

use std::collections::HashMap;

use orlop_cri_api::v1;
use orlop_oci_types::Spec;

use super::Error;
use super::input::Policy;
use registry::Registry;

pub use registry::DEFAULT_DIRS;

const FIELD: &str = "config.CDI_devices";

/// Prefix of annotations that name devices, from before requests had a field for them.
const ANNOTATION: &str = "cdi.k8s.io/";

/// Changes a specification for the devices that a request names.
///
/// The vendors' files are read each time: they change with drivers, and few containers ask for devices.
pub(super) fn apply(
    config: &v1::ContainerConfig,
    policy: &Policy,
    spec: &mut Spec,
) -> Result<(), Error> {
    add(
        &requested(&config.cdi_devices, &config.annotations),
        policy,
        spec,
    )
}

/// Changes a specification for devices by name.
pub(super) fn add(names: &[&str], policy: &Policy, spec: &mut Spec) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let registry = Registry::read(&policy.cdi_dirs);
    let mut files = Vec::new();
    for &name in names {
        let device = registry.find(name)?;
        // The common edits of a file are applied once.
        if !files.contains(&device.file) {
            files.push(device.file);
            edits::apply(device.common, name, spec)?;
        }
        edits::apply(device.own, name, spec)?;
    }
    Ok(())
}

/// Returns the devices' names without duplicates, those of the field before those of annotations.
fn requested<'a>(
    devices: &'a [v1::CdiDevice],
    annotations: &'a HashMap<String, String>,
) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    let mut add = |name: &'a str| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for device in devices {
        add(&device.name);
    }
    let mut annotated: Vec<_> = annotations
        .iter()
        .filter(|(name, _)| name.starts_with(ANNOTATION))
        .collect();
    annotated.sort();
    for (_, value) in annotated {
        for name in value.split(',') {
            add(name);
        }
    }
    names
}

#[cfg(test)]
#[path = "cdi_tests.rs"]
mod tests;
