//! A pod's configuration, as the kubelet would write it.

use std::path::PathBuf;

use orlop_cri_api::v1::{
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption,
    PodSandboxConfig, PodSandboxMetadata, PortMapping, Protocol, SecurityProfile,
};

/// A pod of a test; [`PodSpec::config`] is what goes over the wire.
#[derive(Debug, Clone)]
pub struct PodSpec {
    config: PodSandboxConfig,
}

impl PodSpec {
    /// A pod in the host's network, each container with its own PID namespace.
    /// A pod in the host's network, each container with its own PID namespace.
    pub fn new(name: &str, namespace: &str, cgroup_parent: String, logs: PathBuf) -> Self {
        let security = LinuxSandboxSecurityContext {
            namespace_options: Some(NamespaceOption {
                network: NamespaceMode::Node.into(),
                pid: NamespaceMode::Container.into(),
                ipc: NamespaceMode::Pod.into(),
                ..NamespaceOption::default()
            }),
            seccomp: Some(SecurityProfile::default()),
            ..LinuxSandboxSecurityContext::default()
        };
        let config = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                uid: format!("{namespace}-{name}"),
                attempt: 0,
            }),
            log_directory: logs.to_string_lossy().into_owned(),
            linux: Some(LinuxPodSandboxConfig {
                cgroup_parent,
                security_context: Some(security),
                ..LinuxPodSandboxConfig::default()
            }),
            ..PodSandboxConfig::default()
        };
        Self { config }
    }

    /// Gives the pod a network of its own.
    pub fn own_network(mut self) -> Self {
        self.namespaces().network = NamespaceMode::Pod.into();
        self
    }

    /// Lets the containers share one PID namespace.
    pub fn shared_pid(mut self) -> Self {
        self.namespaces().pid = NamespaceMode::Pod.into();
        self
    }

    /// The host name; only a pod with its own network may have one.
    pub fn hostname(mut self, name: &str) -> Self {
        name.clone_into(&mut self.config.hostname);
        self
    }

    /// Adds a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.config.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds an annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.config
            .annotations
            .insert(key.to_owned(), value.to_owned());
        self
    }

    /// Maps a TCP port of the host.
    pub fn host_port(mut self, host: u16, container: u16) -> Self {
        self.config.port_mappings.push(PortMapping {
            protocol: Protocol::Tcp.into(),
            container_port: container.into(),
            host_port: host.into(),
            ..PortMapping::default()
        });
        self
    }

    /// Another attempt at the same pod.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.metadata().attempt = attempt;
        self
    }

    /// Changes the configuration in a way of one's own.
    pub fn with(mut self, change: impl FnOnce(&mut PodSandboxConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// The configuration.
    pub fn config(&self) -> PodSandboxConfig {
        self.config.clone()
    }

    /// The pod's name.
    pub fn name(&self) -> &str {
        self.config
            .metadata
            .as_ref()
            .map_or("", |metadata| &metadata.name)
    }

    /// Where its containers' logs are.
    pub fn logs(&self) -> PathBuf {
        PathBuf::from(&self.config.log_directory)
    }

    fn metadata(&mut self) -> &mut PodSandboxMetadata {
        self.config.metadata.get_or_insert_default()
    }

    fn namespaces(&mut self) -> &mut NamespaceOption {
        let linux = self.config.linux.get_or_insert_default();
        let security = linux.security_context.get_or_insert_default();
        security.namespace_options.get_or_insert_default()
    }
}
