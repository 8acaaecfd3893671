//! Container settings that depend on the node.

use orlop_cri_api::v1;
use orlop_kubelet_rules::cri_config::{limit_swap, protect_memory};
use orlop_kubelet_rules::pod::{Container, ProfileKind};

use super::life::Life;

impl Life {
    /// Applies the settings that depend on the node: seccomp, CPU quota, swap and memory
    /// protection.
    pub(super) fn adapt_to_node(&self, config: &mut v1::ContainerConfig, container: &Container) {
        let own = container.security_context.seccomp_profile.as_ref();
        let profile = own.or(self
            .wished
            .pod
            .spec
            .security_context
            .seccomp_profile
            .as_ref());
        let Some(linux) = &mut config.linux else {
            return;
        };
        if let Some(seccomp) = linux
            .security_context
            .as_mut()
            .and_then(|s| s.seccomp.as_mut())
        {
            match profile.map(|p| p.kind) {
                None if self.ctx.options.seccomp_default => {
                    seccomp.set_profile_type(v1::security_profile::ProfileType::RuntimeDefault);
                }
                Some(ProfileKind::Localhost) => {
                    let profiles = self.ctx.options.root_dir.join("seccomp");
                    let path = profiles.join(&seccomp.localhost_ref);
                    seccomp.localhost_ref = path.display().to_string();
                }
                _ => {}
            }
        }
        if let Some(resources) = &mut linux.resources {
            if !self.ctx.options.cgroups.cpu_quota {
                resources.cpu_quota = 0;
            }
            limit_swap(resources, &self.wished.pod, container, &self.ctx.swap);
            self.protect_memory(resources, container);
            if self.ctx.cgroups.unified() && !self.ctx.options.single_process_oom_kill {
                // If one process is killed, the rest of the container is killed too.
                resources
                    .unified
                    .insert("memory.oom.group".to_owned(), "1".to_owned());
            }
        }
    }

    /// Sets memory protection and the threshold where memory is throttled.
    pub(super) fn protect_memory(
        &self,
        resources: &mut v1::LinuxContainerResources,
        container: &Container,
    ) {
        if let Some(qos) = self.ctx.cgroups.memory_qos() {
            let page = rustix::param::page_size() as u64;
            let allocatable = self.ctx.facts.memory;
            protect_memory(
                resources,
                &self.wished.pod,
                container,
                qos,
                allocatable,
                page,
            );
        }
    }
}
