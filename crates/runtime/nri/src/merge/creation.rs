//! Merges the adjustments of a container that is being created.

use super::entries::{self, Wish};
use super::update::none_of;
use super::{Owners, Updates, overlay, resources};
use crate::error::Result;
use crate::marks::removed;
use crate::v1alpha1::{
    Container, ContainerAdjustment, ContainerEviction, CreateContainerRequest,
    CreateContainerResponse, Field, Hooks, KeyValue, LinuxContainer, LinuxContainerAdjustment,
    LinuxNamespace, LinuxRdt, PluginInstance, PodSandbox, PosixRlimit,
    ValidateContainerAdjustmentRequest,
};

/// A container creation that passes through the plugins.
#[derive(Debug)]
pub struct Creation {
    /// Includes the changes of the previous plugins.
    request: CreateContainerRequest,
    id: String,
    adjust: ContainerAdjustment,
    updates: Updates,
    owners: Owners,
    evictions: Vec<(String, ContainerEviction)>,
}

impl Creation {
    /// Starts with the container before any adjustment.
    pub fn new(pod: PodSandbox, container: Container) -> Self {
        Self {
            id: container.id.clone(),
            request: CreateContainerRequest {
                pod: Some(pod),
                container: Some(container),
            },
            adjust: ContainerAdjustment::default(),
            updates: Updates::default(),
            owners: Owners::default(),
            evictions: Vec::new(),
        }
    }

    /// Returns the request for the next plugin.
    pub fn request(&self) -> &CreateContainerRequest {
        &self.request
    }

    /// Merges the response of a plugin.
    pub fn apply(&mut self, plugin: &str, answer: CreateContainerResponse) -> Result<()> {
        if let Some(wanted) = answer.adjust {
            self.adjust(plugin, wanted)?;
        }
        none_of(plugin, &self.id, &answer.update)?;
        self.updates.apply(plugin, answer.update)?;
        let evictions = answer.evict.into_iter();
        self.evictions
            .extend(evictions.map(|one| (plugin.to_owned(), one)));
        Ok(())
    }

    /// Returns the request for validators, with the container before any adjustment.
    pub fn to_validate(
        &self,
        pristine: Container,
        plugins: Vec<PluginInstance>,
    ) -> ValidateContainerAdjustmentRequest {
        ValidateContainerAdjustmentRequest {
            pod: self.request.pod.clone(),
            container: Some(pristine),
            adjust: Some(self.adjust.clone()),
            update: self.updates.list().to_vec(),
            owners: Some(self.owners.message().clone()),
            plugins,
        }
    }

    /// Returns the adjustment, the updates of other containers, and the evictions.
    pub fn finish(
        self,
    ) -> (
        ContainerAdjustment,
        Updates,
        Vec<(String, ContainerEviction)>,
    ) {
        (self.adjust, self.updates, self.evictions)
    }

    fn adjust(&mut self, plugin: &str, wanted: ContainerAdjustment) -> Result<()> {
        let owners = &mut self.owners;
        let adjust = &mut self.adjust;
        let container = self.request.container.get_or_insert_default();
        let wish = |field| Wish {
            container: &self.id,
            field,
            plugin,
        };
        entries::map(
            wish(Field::Annotations),
            owners,
            wanted.annotations,
            &mut adjust.annotations,
            &mut container.annotations,
        )?;
        entries::list(
            wish(Field::Mounts),
            owners,
            wanted.mounts,
            &mut adjust.mounts,
            &mut container.mounts,
        )?;
        let mut variables = split(&container.env);
        entries::list(
            wish(Field::Env),
            owners,
            wanted.env,
            &mut adjust.env,
            &mut variables,
        )?;
        container.env = variables.iter().map(join).collect();
        args(wish(Field::Args), owners, wanted.args, adjust, container)?;
        if let Some(hooks) = wanted.hooks.filter(|hooks| *hooks != Hooks::default()) {
            append(&hooks, adjust.hooks.get_or_insert_default());
            append(&hooks, container.hooks.get_or_insert_default());
            owners.share(&self.id, Field::OciHooks, plugin);
        }
        rlimits(
            wish(Field::Rlimits),
            owners,
            wanted.rlimits,
            adjust,
            container,
        )?;
        for device in wanted.cdi_devices {
            owners.claim_entry(&self.id, Field::CdiDevices, &device.name, plugin)?;
            adjust.cdi_devices.push(device);
        }
        if let Some(linux) = wanted.linux {
            self.adjust_linux(plugin, linux)?;
        }
        Ok(())
    }

    fn adjust_linux(&mut self, plugin: &str, wanted: LinuxContainerAdjustment) -> Result<()> {
        let (id, owners) = (&self.id, &mut self.owners);
        let adjust = self.adjust.linux.get_or_insert_default();
        let container = self.request.container.get_or_insert_default();
        let seen = container.linux.get_or_insert_default();
        let wish = |field| Wish {
            container: id,
            field,
            plugin,
        };
        entries::list(
            wish(Field::Devices),
            owners,
            wanted.devices,
            &mut adjust.devices,
            &mut seen.devices,
        )?;
        if let Some(wanted) = wanted.resources {
            resources::claim(owners, id, plugin, &wanted)?;
            overlay(&wanted, adjust.resources.get_or_insert_default());
            overlay(&wanted, seen.resources.get_or_insert_default());
        }
        if !wanted.cgroups_path.is_empty() {
            owners.claim(id, Field::CgroupsPath, plugin)?;
            adjust.cgroups_path.clone_from(&wanted.cgroups_path);
            seen.cgroups_path = wanted.cgroups_path;
        }
        macro_rules! simple {
            ($($name:ident => $field:ident),*) => { $(
                if wanted.$name.is_some() {
                    owners.claim(id, Field::$field, plugin)?;
                    adjust.$name.clone_from(&wanted.$name);
                    seen.$name = wanted.$name;
                }
            )* };
        }
        simple!(
            oom_score_adj => OomScoreAdj,
            io_priority => IoPriority,
            seccomp_policy => SeccompPolicy,
            scheduler => LinuxSched
        );
        if wanted.memory_policy.is_some() {
            owners.claim(id, Field::MemoryPolicy, plugin)?;
            adjust.memory_policy = wanted.memory_policy;
        }
        namespaces(
            wish(Field::Namespace),
            owners,
            wanted.namespaces,
            adjust,
            seen,
        )?;
        entries::map(
            wish(Field::Sysctl),
            owners,
            wanted.sysctl,
            &mut adjust.sysctl,
            &mut seen.sysctl,
        )?;
        entries::map(
            wish(Field::LinuxNetDevices),
            owners,
            wanted.net_devices,
            &mut adjust.net_devices,
            &mut seen.net_devices,
        )?;
        if let Some(wanted) = wanted.rdt {
            rdt(id, plugin, owners, wanted, adjust, seen)?;
        }
        Ok(())
    }
}

fn args(
    wish: Wish<'_>,
    owners: &mut Owners,
    mut wanted: Vec<String>,
    adjust: &mut ContainerAdjustment,
    container: &mut Container,
) -> Result<()> {
    if wanted.first().is_some_and(String::is_empty) {
        owners.clear(wish.container, wish.field, wish.plugin);
        wanted.remove(0);
    }
    if !wanted.is_empty() {
        owners.claim(wish.container, wish.field, wish.plugin)?;
        adjust.args.clone_from(&wanted);
        container.args = wanted;
    }
    Ok(())
}

fn rlimits(
    wish: Wish<'_>,
    owners: &mut Owners,
    wanted: Vec<PosixRlimit>,
    adjust: &mut ContainerAdjustment,
    container: &mut Container,
) -> Result<()> {
    for limit in wanted {
        owners.claim_entry(wish.container, wish.field, &limit.r#type, wish.plugin)?;
        container.rlimits.retain(|own| own.r#type != limit.r#type);
        container.rlimits.push(limit.clone());
        adjust.rlimits.push(limit);
    }
    Ok(())
}

fn namespaces(
    wish: Wish<'_>,
    owners: &mut Owners,
    wanted: Vec<LinuxNamespace>,
    adjust: &mut LinuxContainerAdjustment,
    seen: &mut LinuxContainer,
) -> Result<()> {
    for namespace in wanted {
        let gone = removed(&namespace.r#type);
        let kind = gone.unwrap_or(&namespace.r#type);
        owners.claim_entry(wish.container, wish.field, kind, wish.plugin)?;
        seen.namespaces.retain(|own| own.r#type != kind);
        if gone.is_none() {
            seen.namespaces.push(namespace.clone());
        }
        adjust.namespaces.push(namespace);
    }
    Ok(())
}

fn rdt(
    id: &str,
    plugin: &str,
    owners: &mut Owners,
    wanted: LinuxRdt,
    adjust: &mut LinuxContainerAdjustment,
    seen: &mut LinuxContainer,
) -> Result<()> {
    if wanted.remove {
        for field in [
            Field::RdtClosId,
            Field::RdtSchemata,
            Field::RdtEnableMonitoring,
        ] {
            owners.clear(id, field, plugin);
        }
        adjust.rdt = None;
        seen.rdt = None;
    }
    let wished = adjust.rdt.get_or_insert_default();
    // Keep the request to remove the container's own settings.
    wished.remove |= wanted.remove;
    macro_rules! take {
        ($($name:ident => $field:ident),*) => { $(
            if wanted.$name.is_some() {
                owners.claim(id, Field::$field, plugin)?;
                seen.rdt.get_or_insert_default().$name.clone_from(&wanted.$name);
                wished.$name = wanted.$name;
            }
        )* };
    }
    take!(
        clos_id => RdtClosId,
        schemata => RdtSchemata,
        enable_monitoring => RdtEnableMonitoring
    );
    Ok(())
}

fn append(hooks: &Hooks, to: &mut Hooks) {
    for (from, to) in [
        (&hooks.prestart, &mut to.prestart),
        (&hooks.create_runtime, &mut to.create_runtime),
        (&hooks.create_container, &mut to.create_container),
        (&hooks.start_container, &mut to.start_container),
        (&hooks.poststart, &mut to.poststart),
        (&hooks.poststop, &mut to.poststop),
    ] {
        to.extend(from.iter().cloned());
    }
}

fn split(variables: &[String]) -> Vec<KeyValue> {
    let split = |text: &String| {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        KeyValue {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    };
    variables.iter().map(split).collect()
}

fn join(variable: &KeyValue) -> String {
    format!("{}={}", variable.key, variable.value)
}

#[cfg(test)]
#[path = "creation_tests.rs"]
mod tests;
