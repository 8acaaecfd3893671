//! Updates of the resource limits of an existing container, by clients or plugins.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orlop_cgroup::Limits;
use orlop_cri_api::v1::LinuxContainerResources;
use orlop_nri::v1alpha1::LinuxResources;
use orlop_oci_types as oci;

use crate::blocking;
use crate::error::{Error, Result};
use crate::node::cgroups::Cgroups;
use crate::node::runtimes::Runtimes;
use crate::record::container::{Container, Event, Phase};
use crate::record::spec_file;
use crate::spec::{self, HostFacts};

/// Time limit for the runtime to apply an update, after which it is killed.
const LIMIT: Duration = Duration::from_secs(30);

/// Converts a client's resource update to OCI resources.
pub fn of_request(
    host: &HostFacts,
    container: &Container,
    asked: &LinuxContainerResources,
) -> Result<oci::Resources> {
    let mut warnings = Vec::new();
    let update =
        spec::limits(Some(asked), host, None, "linux", &mut warnings).map_err(Error::Spec)?;
    warn(container, warnings);
    Ok(update)
}

/// Converts a plugin's resource update to OCI resources.
pub fn of_plugin(
    host: &HostFacts,
    container: &Container,
    wanted: &LinuxResources,
) -> Result<oci::Resources> {
    let mut warnings = Vec::new();
    let update =
        spec::plugin_limits(wanted, host, "linux.resources", &mut warnings).map_err(Error::Spec)?;
    for (class, what) in [
        (&wanted.blockio_class, "block IO"),
        (&wanted.rdt_class, "RDT"),
    ] {
        if class.is_some() {
            warnings.push(format!(
                "linux.resources: the {what} class is not changed; it is set only when the \
                 container is created"
            ));
        }
    }
    warn(container, warnings);
    Ok(update)
}

fn warn(container: &Container, warnings: Vec<String>) {
    for warning in warnings {
        tracing::warn!(container = %container.id, "{warning}");
    }
}

/// Updates the resources of a container that has not ended. The caller holds the container's lock (`turn`).
pub async fn change(
    cgroups: &Cgroups,
    runtimes: &Runtimes,
    container: &Arc<Container>,
    update: &oci::Resources,
) -> Result<()> {
    let phase = container.phase();
    if !matches!(phase, Phase::Created | Phase::Running) {
        let problem = format!(
            "container {} has exited; its resources cannot be updated",
            container.id
        );
        return Err(Error::Precondition(problem).into());
    }
    let bundle = container.bundle.clone();
    let mut whole = blocking(move || spec_file::read(&bundle)).await?;
    let before = whole
        .linux
        .as_ref()
        .and_then(|linux| linux.resources.clone());
    let next = spec::updated_resources(&before.unwrap_or_default(), update);
    if phase == Phase::Running {
        apply(cgroups, runtimes, container, &next).await?;
    }
    let score = whole
        .process
        .as_ref()
        .and_then(|process| process.oom_score_adj);
    let report = spec::report_resources(&next, score);
    whole.linux.get_or_insert_default().resources = Some(next);
    let bundle = container.bundle.clone();
    blocking(move || spec_file::write(&bundle, &whole)).await?;
    container.record(Event::Updated { resources: report }).await
}

/// Lets the runtime update the limits of a running container.
///
/// The update contains all limits: runtimes take missing ones from their stored state, which they write again with
/// systemd. Device rules are left out; they never change.
async fn apply(
    cgroups: &Cgroups,
    runtimes: &Runtimes,
    container: &Container,
    next: &oci::Resources,
) -> Result<()> {
    let handler = runtimes.of(&container.pod)?;
    let path = container.bundle.join("update.json");
    let limits = oci::Resources {
        devices: Vec::new(),
        ..next.clone()
    };
    let text = serde_json::to_vec(&limits).map_err(|error| {
        Error::Internal(format!("cannot encode the resources as JSON: {error}"))
    })?;
    write(path.clone(), text).await?;
    let updated = handler
        .runtime
        .update(container.id.as_str(), &path, LIMIT)
        .await;
    let _ = blocking(move || Ok(std::fs::remove_file(path))).await;
    updated.map_err(|source| {
        let doing = format!("updating the resources of container {}", container.id);
        Arc::new(Error::Launch { doing, source })
    })?;
    apply_hugepages(cgroups, container, next).await
}

/// Applies huge page limits, which some runtimes ignore in an update.
async fn apply_hugepages(
    cgroups: &Cgroups,
    container: &Container,
    next: &oci::Resources,
) -> Result<()> {
    let Some(cgroup) = cgroups.of_container(container) else {
        return Ok(());
    };
    let pages = next.hugepage_limits.iter();
    let limits = Limits {
        hugepages: pages
            .map(|limit| (limit.page_size.clone(), limit.limit))
            .collect(),
        ..Limits::default()
    };
    let id = container.id.clone();
    blocking(move || {
        cgroup.set(&limits).map_err(|error| {
            Error::Internal(format!(
                "cannot limit huge pages of container {id}: {error}"
            ))
            .into()
        })
    })
    .await
}

async fn write(path: PathBuf, text: Vec<u8>) -> Result<()> {
    blocking(move || {
        let written = std::fs::write(&path, text);
        Ok(written.map_err(Error::io(format!("writing {}", path.display())))?)
    })
    .await
}
