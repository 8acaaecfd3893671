//! Container configurations.

use std::path::Path;

use orlop_cri_api::v1::{
    ContainerConfig, ContainerMetadata, ImageSpec, Int64Value, KeyValue, LinuxContainerConfig,
    LinuxContainerResources, LinuxContainerSecurityContext, Mount, SecurityProfile,
};

use crate::cri::PodSpec;

/// Builder of a container; [`ContainerSpec::config`] returns the CRI message.
#[derive(Debug, Clone)]
pub struct ContainerSpec {
    config: ContainerConfig,
}

impl ContainerSpec {
    /// Creates a container that runs the command of its image and logs to `NAME.log`.
    pub fn new(name: &str, image: &str) -> Self {
        let security = LinuxContainerSecurityContext {
            seccomp: Some(SecurityProfile::default()),
            ..LinuxContainerSecurityContext::default()
        };
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata {
                name: name.to_owned(),
                attempt: 0,
            }),
            image: Some(ImageSpec {
                image: image.to_owned(),
                ..ImageSpec::default()
            }),
            log_path: format!("{name}.log"),
            linux: Some(LinuxContainerConfig {
                security_context: Some(security),
                ..LinuxContainerConfig::default()
            }),
            ..ContainerConfig::default()
        };
        Self { config }
    }

    /// Runs a shell script.
    pub fn shell(self, script: &str) -> Self {
        self.command(&["/bin/sh", "-c", script])
    }

    /// Replaces the image's entry point.
    pub fn command(mut self, words: &[&str]) -> Self {
        self.config.command = words.iter().map(ToString::to_string).collect();
        self
    }

    /// Replaces the image's arguments.
    pub fn args(mut self, words: &[&str]) -> Self {
        self.config.args = words.iter().map(ToString::to_string).collect();
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.config.envs.push(KeyValue {
            key: key.to_owned(),
            value: value.into(),
        });
        self
    }

    /// Mounts a path of the host.
    pub fn mount(mut self, host: &Path, inside: &str) -> Self {
        self.config.mounts.push(Mount {
            host_path: host.to_string_lossy().into_owned(),
            container_path: inside.to_owned(),
            ..Mount::default()
        });
        self
    }

    /// Runs as a user of the image.
    pub fn user(mut self, name: &str) -> Self {
        name.clone_into(&mut self.security().run_as_username);
        self
    }

    /// Runs as a user ID.
    pub fn uid(mut self, uid: i64) -> Self {
        self.security().run_as_user = Some(Int64Value { value: uid });
        self
    }

    /// Limits the memory.
    pub fn memory(mut self, bytes: i64) -> Self {
        self.resources().memory_limit_in_bytes = bytes;
        self
    }

    /// Sets the attempt number.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.config.metadata.get_or_insert_default().attempt = attempt;
        self
    }

    /// Applies a custom change to the configuration.
    pub fn with(mut self, change: impl FnOnce(&mut ContainerConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Returns the configuration for a container of `pod`. Like the kubelet, it repeats the pod's namespace modes.
    pub fn config(&self, pod: &PodSpec) -> ContainerConfig {
        let mut config = self.config.clone();
        let modes = pod
            .config()
            .linux
            .and_then(|linux| linux.security_context)
            .and_then(|security| security.namespace_options);
        let linux = config.linux.get_or_insert_default();
        let security = linux.security_context.get_or_insert_default();
        if security.namespace_options.is_none() {
            security.namespace_options = modes;
        }
        config
    }

    fn security(&mut self) -> &mut LinuxContainerSecurityContext {
        self.config
            .linux
            .get_or_insert_default()
            .security_context
            .get_or_insert_default()
    }

    fn resources(&mut self) -> &mut LinuxContainerResources {
        self.config
            .linux
            .get_or_insert_default()
            .resources
            .get_or_insert_default()
    }
}
