//! Pod requests of `RunPodSandbox`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use orlop_cri_api::v1::{NamespaceMode, PodSandboxConfig, RunPodSandboxRequest};
use orlop_cri_server::attachment::attachment;
use orlop_launch::IdMap;
use orlop_network::Attachment;
use orlop_oci_types as oci;

use crate::ask::FilesAsk;
use crate::error::{Error, Result};
use crate::image::may_be_lazy;
use crate::node::Node;
use crate::node::paths::Paths;
use crate::node::runtimes::Handler;
use crate::record::ids::PodId;
use crate::record::names::PodName;
use crate::spec::{self, IdRanges};

/// A validated pod request, as far as that is possible beforehand.
#[derive(Debug)]
pub struct PodAsk {
    /// The identity of the pod.
    pub name: PodName,
    /// The data that is recorded of the pod.
    pub record: PodRecord,
    /// The parts that the pod is made of.
    pub parts: PodParts,
}

/// The data that is recorded of a pod.
#[derive(Debug)]
pub struct PodRecord {
    /// The identifier of the new pod.
    pub id: PodId,
    /// The request, unchanged.
    pub config: PodSandboxConfig,
    /// The requested runtime handler; empty is the default one.
    pub handler: String,
    /// The runtime that the handler resolves to.
    pub runtime: String,
}

/// The parts that a pod is made of.
#[derive(Debug)]
pub struct PodParts {
    /// The mappings of user and group ids, if it has a user namespace.
    pub user: Option<(Vec<IdMap>, Vec<IdMap>)>,
    /// Sysctls in its namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// Size limit of its shared memory in bytes.
    pub shm_size: u64,
    /// The pod's network, unless it uses the node's.
    pub attachment: Option<Box<Attachment>>,
    /// The pod's files.
    pub files: FilesAsk,
}

impl PodAsk {
    /// Validates a request. Nothing is made for one that is refused.
    pub fn read(node: &Node, request: RunPodSandboxRequest) -> Result<Self> {
        let config = request
            .config
            .ok_or_else(|| Error::invalid("config", "is missing"))?;
        let name = PodName::of(&config)?;
        check(&config)?;
        may_be_lazy("config", &config)?;
        let handler = node.runtimes.handler(&request.runtime_handler)?;
        let id = PodId::random();
        let parts = PodParts::read(node, &id, &config, &handler)?;
        let record = PodRecord {
            id,
            config,
            handler: request.runtime_handler,
            runtime: handler.name.clone(),
        };
        Ok(Self {
            name,
            record,
            parts,
        })
    }
}

impl PodParts {
    fn read(
        node: &Node,
        id: &PodId,
        config: &PodSandboxConfig,
        handler: &Arc<Handler>,
    ) -> Result<Self> {
        let linux = config.linux.as_ref();
        let parent = linux.map_or("", |linux| &linux.cgroup_parent);
        node.cgroups.parent_of(id, parent)?;
        let security = linux.and_then(|linux| linux.security_context.as_ref());
        let modes = security.and_then(|security| security.namespace_options.as_ref());
        let ranges = IdRanges::parse(modes).map_err(Error::Spec)?;
        let host_network = modes.is_some_and(|modes| modes.network() == NamespaceMode::Node);
        let settings = node.config();
        let policy = &settings.containers.policy;
        let rules = &handler.settings.rules;
        let sysctls = spec::pod_sysctls(config, policy, rules.base.as_ref());
        Ok(Self {
            user: ranges.map(|ranges| (maps(ranges.uids), maps(ranges.gids))),
            sysctls: sysctls.map_err(Error::Spec)?,
            shm_size: spec::shm_size(config, rules, policy).map_err(Error::Spec)?,
            files: FilesAsk::read(config)?,
            attachment: if host_network {
                None
            } else {
                Some(Box::new(network(&node.paths, id, config, handler)?))
            },
        })
    }
}

fn maps(ranges: Vec<oci::IdMapping>) -> Vec<IdMap> {
    let map = |range: oci::IdMapping| IdMap {
        inside: range.container_id,
        outside: range.host_id,
        count: range.size,
    };
    ranges.into_iter().map(map).collect()
}

fn network(
    paths: &Paths,
    id: &PodId,
    config: &PodSandboxConfig,
    handler: &Handler,
) -> Result<Attachment> {
    let name = id.as_str().parse().map_err(|source| {
        Error::Internal(format!(
            "pod ID {id} is not a valid CNI container ID: {source}"
        ))
    })?;
    let mut attachment = attachment(name, paths.net_pin(id), config).map_err(Error::from)?;
    attachment
        .conf_dir
        .clone_from(&handler.settings.cni_conf_dir);
    Ok(attachment)
}

/// Refuses invalid paths and namespace modes.
fn check(config: &PodSandboxConfig) -> Result<()> {
    let directory = Path::new(&config.log_directory);
    if !config.log_directory.is_empty()
        && (!directory.is_absolute() || has_parent_component(directory))
    {
        let problem = format!("{directory:?} must be an absolute path without \"..\"");
        return Err(Error::invalid("config.log_directory", problem).into());
    }
    let linux = config.linux.clone().unwrap_or_default();
    let parent = Path::new(&linux.cgroup_parent);
    if has_parent_component(parent) {
        let problem = format!("{parent:?} must not contain \"..\"");
        return Err(Error::invalid("config.linux.cgroup_parent", problem).into());
    }
    let namespaces = linux
        .security_context
        .and_then(|context| context.namespace_options)
        .unwrap_or_default();
    for (field, mode) in [("network", namespaces.network()), ("ipc", namespaces.ipc())] {
        if !matches!(mode, NamespaceMode::Pod | NamespaceMode::Node) {
            let field = format!("config.linux.security_context.namespace_options.{field}");
            return Err(Error::invalid(field, "must be POD or NODE for a pod").into());
        }
    }
    if namespaces.pid() == NamespaceMode::Target {
        let field = "config.linux.security_context.namespace_options.pid";
        return Err(Error::invalid(field, "TARGET is allowed for containers only").into());
    }
    Ok(())
}

fn has_parent_component(path: &Path) -> bool {
    path.components()
        .any(|part| part == std::path::Component::ParentDir)
}
