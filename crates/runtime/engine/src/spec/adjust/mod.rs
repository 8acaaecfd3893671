//! Applying the adjustments of NRI plugins to a specification.
//!
//! Adjustments are validated like client requests. The administrator installs plugins, but they can have
//! bugs, and a refusal is clearer than a container that cannot start.

mod devices;
mod facts;
mod mounts;
mod process;
mod resources;
mod security;

use orlop_nri::v1alpha1 as nri;
use orlop_oci_types::{Hook, Hooks, Spec};

use super::{Error, cdi};
use facts::field;

pub use facts::AdjustFacts;

/// Applies the adjustments. Returns those that this node does not support, for the log.
pub fn adjust(
    wanted: &nri::ContainerAdjustment,
    facts: &AdjustFacts<'_>,
    spec: &mut Spec,
) -> Result<Vec<String>, Error> {
    let mut warnings = Vec::new();
    annotations(wanted, spec);
    process::adjust(wanted, facts, spec, &mut warnings)?;
    if let Some(hooks) = &wanted.hooks {
        add_hooks(hooks, spec)?;
    }
    let devices: Vec<&str> = wanted
        .cdi_devices
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    cdi::add(&devices, facts.policy, spec)?;
    if let Some(linux) = &wanted.linux {
        devices::adjust(linux, spec)?;
        resources::adjust(linux, facts, spec, &mut warnings)?;
        security::adjust(linux, facts, spec)?;
    }
    mounts::adjust(&wanted.mounts, spec)?;
    Ok(warnings)
}

fn annotations(wanted: &nri::ContainerAdjustment, spec: &mut Spec) {
    for name in wanted.annotations.keys() {
        if let Some(name) = orlop_nri::removed(name) {
            spec.annotations.remove(name);
        }
    }
    for (name, value) in &wanted.annotations {
        if orlop_nri::removed(name).is_none() {
            spec.annotations.insert(name.clone(), value.clone());
        }
    }
}

fn add_hooks(wanted: &nri::Hooks, spec: &mut Spec) -> Result<(), Error> {
    let mut hooks = spec.hooks.take().unwrap_or_default();
    for (wanted, own, stage) in [
        (&wanted.prestart, &mut hooks.prestart, "prestart"),
        (
            &wanted.create_runtime,
            &mut hooks.create_runtime,
            "create_runtime",
        ),
        (
            &wanted.create_container,
            &mut hooks.create_container,
            "create_container",
        ),
        (
            &wanted.start_container,
            &mut hooks.start_container,
            "start_container",
        ),
        (&wanted.poststart, &mut hooks.poststart, "poststart"),
        (&wanted.poststop, &mut hooks.poststop, "poststop"),
    ] {
        for hook in wanted {
            if !hook.path.starts_with('/') {
                let problem = format!("{:?} is not an absolute path", hook.path);
                return Err(Error::invalid(
                    field(&format!("hooks.{stage}.path")),
                    problem,
                ));
            }
            own.push(Hook {
                path: hook.path.clone(),
                args: hook.args.clone(),
                env: hook.env.clone(),
                timeout: hook.timeout.map(|timeout| timeout.value),
            });
        }
    }
    spec.hooks = Some(hooks).filter(|hooks| *hooks != Hooks::default());
    Ok(())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
