//! Lookup of the sandbox or container with an id. The engine also accepts names and knows containers that were not
//! made for pods; both count as not found.

use crate::checkpoint::is_id;
use crate::docker::types::{Container, ContainerSummary};
use crate::docker::{Docker, DockerError, Which};
use crate::error::{Error, Result};
use crate::{labels, names};

const SANDBOX: &str = "pod sandbox";
const CONTAINER: &str = "container";

/// Inspects a sandbox.
pub(crate) async fn sandbox(docker: &Docker, id: &str) -> Result<Container> {
    inspected(docker, id, SANDBOX, labels::SANDBOX).await
}

/// Inspects a container.
pub(crate) async fn container(docker: &Docker, id: &str) -> Result<Container> {
    inspected(docker, id, CONTAINER, labels::CONTAINER).await
}

/// Inspects a container, which must be running.
pub(crate) async fn running_container(docker: &Docker, id: &str) -> Result<Container> {
    let found = container(docker, id).await?;
    if found.state.running {
        return Ok(found);
    }
    let problem = format!(
        "container {} is not running; its state is {}",
        found.id, found.state.status
    );
    Err(Error::Precondition(problem).into())
}

async fn inspected(docker: &Docker, id: &str, what: &'static str, kind: &str) -> Result<Container> {
    let not_found = || Error::NotFound {
        what,
        id: id.to_owned(),
    };
    if !is_id(id) {
        return Err(not_found().into());
    }
    let found = match docker.container(id).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Err(not_found().into()),
        Err(error) => return Err(Error::engine(format!("looking for {what} {id}"))(error).into()),
    };
    // The engine also matches names.
    let is_kind = found
        .config
        .labels
        .get(labels::KIND)
        .is_some_and(|found| found == kind);
    if is_kind && names::is_ours(&found.name) && found.id.starts_with(id) {
        return Ok(found);
    }
    Err(not_found().into())
}

/// Lists the containers of a sandbox, in any state.
pub(crate) async fn containers_of(docker: &Docker, sandbox: &str) -> Result<Vec<ContainerSummary>> {
    let which = Which {
        labels: vec![
            labels::filter(labels::KIND, labels::CONTAINER),
            labels::filter(labels::SANDBOX_ID, sandbox),
        ],
        ..Which::default()
    };
    let listed = ours(docker, &which).await;
    Ok(listed.map_err(Error::engine(format!(
        "listing the containers of pod sandbox {sandbox}"
    )))?)
}

/// Lists the containers with these labels that were made for pods. The name decides: an image can set labels, but no
/// name.
pub(crate) async fn ours(
    docker: &Docker,
    which: &Which,
) -> Result<Vec<ContainerSummary>, DockerError> {
    let mut listed = docker.list_containers(which).await?;
    listed.retain(|one| one.names.iter().any(|name| names::is_ours(name)));
    Ok(listed)
}
