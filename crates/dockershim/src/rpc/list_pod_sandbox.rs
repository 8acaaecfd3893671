//! `ListPodSandbox`: the sandboxes that match a filter, and those that only have a checkpoint.

use std::collections::HashSet;

use orlop_cri_api::v1::{
    ListPodSandboxRequest, ListPodSandboxResponse, PodSandboxFilter, PodSandboxState,
};

use crate::docker::Which;
use crate::error::{Error, Result};
use crate::shim::Shim;
use crate::{labels, view};

pub(crate) async fn call(
    shim: &Shim,
    request: ListPodSandboxRequest,
) -> Result<ListPodSandboxResponse> {
    let filter = request.filter.unwrap_or_default();
    // Before the engine's list: a sandbox created in between is not taken for a leftover checkpoint.
    let checkpoints = if filter == PodSandboxFilter::default() {
        shim.checkpoints.ids().await?
    } else {
        Vec::new()
    };
    let listed = shim.docker.list_containers(&which(&filter)).await;
    let listed = listed.map_err(Error::engine("listing pod sandboxes"))?;
    let known: HashSet<&str> = listed.iter().map(|one| one.id.as_str()).collect();
    let vanished = checkpoints.into_iter();
    let vanished = vanished.filter(|id| !known.contains(id.as_str())).collect();
    let ghosts = shim.checkpoints.read_all(vanished).await?;
    let ghosts = ghosts
        .iter()
        .map(|(id, checkpoint)| view::ghost(id, checkpoint));
    let wanted = filter.state.map(|state| state.state());
    let items = listed
        .iter()
        .filter_map(view::sandbox)
        .filter(|one| wanted.is_none_or(|wanted| one.state() == wanted))
        .chain(ghosts)
        .collect();
    Ok(ListPodSandboxResponse { items })
}

fn which(filter: &PodSandboxFilter) -> Which {
    let selector = filter.label_selector.iter();
    let ready = filter
        .state
        .is_some_and(|state| state.state() == PodSandboxState::SandboxReady);
    Which {
        labels: std::iter::once(labels::filter(labels::KIND, labels::SANDBOX))
            .chain(selector.map(|(key, value)| labels::filter(key, value)))
            .collect(),
        id: (!filter.id.is_empty()).then(|| filter.id.clone()),
        states: if ready {
            vec!["running".into()]
        } else {
            Vec::new()
        },
    }
}
