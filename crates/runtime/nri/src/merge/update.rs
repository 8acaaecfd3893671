//! Merges updates of existing containers.

use super::{Owners, overlay, resources};
use crate::error::{Error, Result};
use crate::v1alpha1::{
    Container, ContainerEviction, ContainerUpdate, LinuxResources, PodSandbox,
    UpdateContainerRequest, UpdateContainerResponse,
};

/// Updates of other containers that plugins request during an event: one for each container, in the order of first
/// mention.
#[derive(Debug, Clone, Default)]
pub struct Updates {
    list: Vec<ContainerUpdate>,
    owners: Owners,
}

impl Updates {
    /// Merges the updates that a plugin requests.
    pub fn apply(&mut self, plugin: &str, wanted: Vec<ContainerUpdate>) -> Result<()> {
        for update in wanted {
            let Some(resources) = resources_of(&update) else {
                continue;
            };
            let claimed =
                resources::claim(&mut self.owners, &update.container_id, plugin, resources);
            match claimed {
                Err(_) if update.ignore_failure => continue,
                claimed => claimed?,
            }
            self.add(&update, resources);
        }
        Ok(())
    }

    /// Returns the merged updates.
    pub fn into_list(self) -> Vec<ContainerUpdate> {
        self.list
    }

    pub(super) fn list(&self) -> &[ContainerUpdate] {
        &self.list
    }

    pub(super) fn owners(&mut self) -> &mut Owners {
        &mut self.owners
    }

    fn add(&mut self, update: &ContainerUpdate, resources: &LinuxResources) {
        let id = &update.container_id;
        let known = self.list.iter_mut().find(|own| own.container_id == *id);
        match known {
            Some(own) => {
                // A failure is ignored only if all plugins ignore it.
                own.ignore_failure &= update.ignore_failure;
                let linux = own.linux.get_or_insert_default();
                overlay(resources, linux.resources.get_or_insert_default());
            }
            None => self.list.push(update.clone()),
        }
    }
}

/// A requested update that passes through the plugins.
#[derive(Debug)]
pub struct Update {
    request: UpdateContainerRequest,
    others: Updates,
    evictions: Vec<(String, ContainerEviction)>,
    changed: bool,
}

impl Update {
    /// Starts with the requested resources.
    pub fn new(pod: PodSandbox, container: Container, asked: LinuxResources) -> Self {
        Self {
            request: UpdateContainerRequest {
                pod: Some(pod),
                container: Some(container),
                linux_resources: Some(asked),
            },
            others: Updates::default(),
            evictions: Vec::new(),
            changed: false,
        }
    }

    /// Returns the request for the next plugin.
    pub fn request(&self) -> &UpdateContainerRequest {
        &self.request
    }

    /// Merges the response of a plugin.
    pub fn apply(&mut self, plugin: &str, answer: UpdateContainerResponse) -> Result<()> {
        let own_id = self.request.container.as_ref().map(|own| own.id.clone());
        let own_id = own_id.unwrap_or_default();
        let (own, others): (Vec<_>, Vec<_>) = answer
            .update
            .into_iter()
            .partition(|update| update.container_id == own_id);
        for update in own {
            let Some(wanted) = resources_of(&update) else {
                continue;
            };
            match resources::claim(self.others.owners(), &own_id, plugin, wanted) {
                Err(_) if update.ignore_failure => continue,
                claimed => claimed?,
            }
            overlay(wanted, self.request.linux_resources.get_or_insert_default());
            self.changed = true;
        }
        self.others.apply(plugin, others)?;
        let evictions = answer.evict.into_iter();
        self.evictions
            .extend(evictions.map(|one| (plugin.to_owned(), one)));
        Ok(())
    }

    /// Returns the container's new resources, if any plugin changed them; the updates of other containers; and the
    /// evictions.
    pub fn finish(
        self,
    ) -> (
        Option<LinuxResources>,
        Vec<ContainerUpdate>,
        Vec<(String, ContainerEviction)>,
    ) {
        let own = self.request.linux_resources.filter(|_| self.changed);
        (own, self.others.into_list(), self.evictions)
    }
}

pub(super) fn resources_of(update: &ContainerUpdate) -> Option<&LinuxResources> {
    update.linux.as_ref()?.resources.as_ref()
}

pub(super) fn none_of(plugin: &str, container: &str, updates: &[ContainerUpdate]) -> Result<()> {
    if updates.iter().any(|one| one.container_id == container) {
        return Err(Error::UpdateInCreation {
            plugin: plugin.to_owned(),
            container: container.to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::v1alpha1::{LinuxContainerUpdate, LinuxCpu, OptionalUInt64};

    fn shares(value: u64) -> LinuxResources {
        LinuxResources {
            cpu: Some(LinuxCpu {
                shares: Some(OptionalUInt64 { value }),
                ..LinuxCpu::default()
            }),
            ..LinuxResources::default()
        }
    }

    fn cpus(list: &str) -> LinuxResources {
        LinuxResources {
            cpu: Some(LinuxCpu {
                cpus: list.into(),
                ..LinuxCpu::default()
            }),
            ..LinuxResources::default()
        }
    }

    fn update(id: &str, resources: LinuxResources, ignore_failure: bool) -> ContainerUpdate {
        ContainerUpdate {
            container_id: id.into(),
            linux: Some(LinuxContainerUpdate {
                resources: Some(resources),
            }),
            ignore_failure,
        }
    }

    #[test]
    fn wishes_for_one_container_become_one_update() {
        let mut updates = Updates::default();
        updates
            .apply(
                "00-a",
                vec![update("x", shares(2), true), update("y", shares(3), true)],
            )
            .unwrap();
        updates
            .apply("01-b", vec![update("x", cpus("0"), false)])
            .unwrap();
        let conflict = updates.apply("02-c", vec![update("x", shares(9), false)]);
        let conflict = conflict.unwrap_err().to_string();
        assert!(
            conflict.contains("\"02-c\"") && conflict.contains("CPUShares"),
            "{conflict}"
        );
        updates
            .apply("02-c", vec![update("x", shares(9), true)])
            .unwrap();
        let list = updates.into_list();
        assert_eq!(list.len(), 2);
        let cpu = resources_of(&list[0]).unwrap().cpu.clone().unwrap();
        assert_eq!((cpu.shares.unwrap().value, cpu.cpus.as_str()), (2, "0"));
        assert!(!list[0].ignore_failure && list[1].ignore_failure);
    }

    #[test]
    fn an_update_under_way_is_changed_and_others_come_with_it() {
        let own = Container {
            id: "own".into(),
            ..Container::default()
        };
        let mut merged = Update::new(PodSandbox::default(), own.clone(), shares(10));
        let answer = |list| UpdateContainerResponse {
            update: list,
            evict: vec![ContainerEviction {
                container_id: "old".into(),
                reason: "room".into(),
            }],
        };
        let first = vec![
            update("own", shares(20), false),
            update("x", cpus("1"), false),
        ];
        merged.apply("00-a", answer(first)).unwrap();
        let asked = merged.request().linux_resources.clone().unwrap();
        assert_eq!(asked.cpu.unwrap().shares.unwrap().value, 20);
        let conflict = merged.apply("01-b", answer(vec![update("own", shares(30), false)]));
        assert!(matches!(conflict, Err(Error::Conflict { .. })));
        let (own_resources, others, evictions) = merged.finish();
        assert_eq!(own_resources, Some(shares(20)));
        assert_eq!(others, [update("x", cpus("1"), false)]);
        assert_eq!(evictions[0].1.container_id, "old");

        let untouched = Update::new(PodSandbox::default(), own, shares(10));
        assert_eq!(untouched.finish().0, None, "what was asked for holds");
    }
}
