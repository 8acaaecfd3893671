//! The state of a pod in the runtime: the kubelet's `GetPodStatus`.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use orlop_cri_api::client::{ClientError, RuntimeClient};
use orlop_cri_api::v1;
use orlop_kubelet_rules::labels;
use orlop_kubelet_rules::status::{ContainerState, ContainerStatus, PodStatus, SandboxStatus};

/// The state of a pod in the runtime.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Observation {
    /// The status in the form that the rules use.
    pub(crate) status: PodStatus,
    /// The runtime's own status of each container, by id.
    pub(crate) containers: BTreeMap<String, v1::ContainerStatus>,
}

impl Observation {
    /// Whether a process of the pod may be alive.
    pub(crate) fn is_alive(&self) -> bool {
        self.status.sandboxes().iter().any(|s| s.ready)
            || self
                .status
                .containers()
                .iter()
                .any(|c| matches!(c.state, ContainerState::Running | ContainerState::Unknown))
    }
}

/// Requests the state of a pod. If the runtime supports events, the sandbox status includes the
/// containers; otherwise each container is requested.
pub(crate) async fn observe(
    runtime: &RuntimeClient,
    uid: &str,
) -> Result<Observation, ClientError> {
    let label = || [(labels::POD_UID.to_owned(), uid.to_owned())].into();
    let filter = v1::PodSandboxFilter {
        label_selector: label(),
        ..v1::PodSandboxFilter::default()
    };
    let sandboxes = runtime.list_pod_sandbox(Some(filter)).await?;
    let asked = sandboxes
        .iter()
        .map(|sandbox| async { found(runtime.pod_sandbox_status(&sandbox.id, false).await) });
    let answers: Vec<_> = try_join_all(asked).await?.into_iter().flatten().collect();
    let told = answers.iter().all(|answer| answer.timestamp != 0);
    let containers = if told {
        let of_all = answers
            .iter()
            .flat_map(|answer| &answer.containers_statuses);
        of_all.cloned().collect()
    } else {
        let filter = v1::ContainerFilter {
            label_selector: label(),
            ..v1::ContainerFilter::default()
        };
        let list = runtime.list_containers(Some(filter)).await?;
        let asked = list
            .iter()
            .map(|container| async { found(runtime.container_status(&container.id, false).await) });
        let answers = try_join_all(asked).await?;
        let statuses = answers.into_iter().flatten().filter_map(|a| a.status);
        statuses.collect::<Vec<_>>()
    };
    let sandboxes = answers.iter().filter_map(|answer| answer.status.as_ref());
    Ok(Observation {
        status: PodStatus::new(
            sandboxes.map(SandboxStatus::from).collect(),
            containers.iter().map(ContainerStatus::from).collect(),
        ),
        containers: containers
            .into_iter()
            .map(|status| (status.id.clone(), status))
            .collect(),
    })
}

/// Maps "not found" to `None`: an object may be removed between the list and the request.
fn found<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
