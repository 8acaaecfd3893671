//! Pod configurations, as the kubelet writes them.

use std::path::PathBuf;

use orlop_cri_api::v1::{
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption,
    PodSandboxConfig, PodSandboxMetadata, PortMapping, Protocol, SecurityProfile,
};

/// Builder of a pod; [`PodSpec::config`] returns the CRI message.
#[derive(Debug, Clone)]
pub struct PodSpec {
    config: PodSandboxConfig,
}

impl PodSpec {
    /// Creates a pod in the host network, with one PID namespace for each container.
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

    /// Gives the pod its own network.
    pub fn own_network(mut self) -> Self {
        self.namespaces().network = NamespaceMode::Pod.into();
        self
    }

    /// Shares one PID namespace among the containers.
    pub fn shared_pid(mut self) -> Self {
        self.namespaces().pid = NamespaceMode::Pod.into();
        self
    }

    /// Sets the host name, which only a pod with its own network may have.
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

    /// Maps a TCP port of the host to one of the pod.
    pub fn host_port(mut self, host: u16, container: u16) -> Self {
        self.config.port_mappings.push(PortMapping {
            protocol: Protocol::Tcp.into(),
            container_port: container.into(),
            host_port: host.into(),
            ..PortMapping::default()
        });
        self
    }

    /// Sets the attempt number.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.metadata().attempt = attempt;
        self
    }

    /// Applies a custom change to the configuration.
    pub fn with(mut self, change: impl FnOnce(&mut PodSandboxConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Returns the configuration.
    pub fn config(&self) -> PodSandboxConfig {
        self.config.clone()
    }

    /// Returns the pod's name.
    pub fn name(&self) -> &str {
        self.config
            .metadata
            .as_ref()
            .map_or("", |metadata| &metadata.name)
    }

    /// Returns the log directory of its containers.
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
