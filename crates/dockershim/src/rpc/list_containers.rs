//! `ListContainers`: the containers that match a filter, with one call to the engine.

use orlop_cri_api::v1::{
    Container, ContainerFilter, ContainerState, ListContainersRequest, ListContainersResponse,
};

use crate::docker::Which;
use crate::error::{Error, Result};
use crate::shim::Shim;
use crate::{labels, view};

pub(crate) async fn call(
    shim: &Shim,
    request: ListContainersRequest,
) -> Result<ListContainersResponse> {
    let filter = request.filter.unwrap_or_default();
    let listed = shim.docker.list_containers(&which(&filter)).await;
    let listed = listed.map_err(Error::engine("listing containers"))?;
    let wanted = filter.state.map(|state| state.state());
    let containers: Vec<Container> = listed
        .iter()
        .filter_map(view::container)
        .filter(|one| wanted.is_none_or(|wanted| one.state() == wanted))
        .collect();
    Ok(ListContainersResponse { containers })
}

fn which(filter: &ContainerFilter) -> Which {
    let mut wanted = vec![labels::filter(labels::KIND, labels::CONTAINER)];
    if !filter.pod_sandbox_id.is_empty() {
        wanted.push(labels::filter(labels::SANDBOX_ID, &filter.pod_sandbox_id));
    }
    let selector = filter.label_selector.iter();
    wanted.extend(selector.map(|(key, value)| labels::filter(key, value)));
    let state = filter.state.map(|state| state.state());
    Which {
        labels: wanted,
        id: (!filter.id.is_empty()).then(|| filter.id.clone()),
        states: match state {
            None | Some(ContainerState::ContainerUnknown) => Vec::new(),
            Some(state) => view::matches_state(state)
                .iter()
                .map(ToString::to_string)
                .collect(),
        },
    }
}
