//! The namespaces that a container joins.

use std::path::PathBuf;

use orlop_cri_api::v1::{NamespaceMode, NamespaceOption};

use crate::container::pid_namespace;
use crate::error::{Error, Result};
use crate::record::containers::Containers;
use crate::record::pod::Pod;
use crate::spec;

/// The pod namespaces that a container can join, according to its request.
pub fn joined(
    containers: &Containers,
    pod: &Pod,
    asked: Option<&NamespaceOption>,
) -> Result<spec::PodNamespaces> {
    let keeper = pod.keeper()?;
    let modes = pod.namespaces();
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let own_net = modes.network() != NamespaceMode::Node;
    if modes.pid() == NamespaceMode::Pod && keeper.pid_ns().is_none() {
        return Err(pid_namespace::gone(pod.id.as_str()).into());
    }
    let target = asked.filter(|asked| asked.pid() == NamespaceMode::Target);
    let target_pid = target.map(|asked| pid_namespace_of(containers, pod, &asked.target_id));
    Ok(spec::PodNamespaces {
        network: own_net.then(|| text(keeper.net_ns())),
        ipc: (modes.ipc() != NamespaceMode::Node).then(|| text(keeper.ipc_ns())),
        uts: own_net.then(|| text(keeper.uts_ns())),
        pid: keeper.pid_ns().map(text),
        target_pid: target_pid.transpose()?,
        user: spec::IdRanges::parse(Some(modes))
            .map_err(Error::Spec)?
            .map(|_| text(pod.user_ns())),
    })
}

fn pid_namespace_of(containers: &Containers, pod: &Pod, target: &str) -> Result<String> {
    const FIELD: &str = "config.linux.security_context.namespace_options.target_id";
    let container = containers.find(target)?;
    if container.pod.id != pod.id {
        let problem = format!("container {} belongs to another pod", container.id);
        return Err(Error::invalid(FIELD, problem).into());
    }
    let pid = container.pid().ok_or_else(|| {
        Error::Precondition(format!(
            "{FIELD}: container {} is not running",
            container.id
        ))
    })?;
    Ok(format!("/proc/{pid}/ns/pid"))
}
