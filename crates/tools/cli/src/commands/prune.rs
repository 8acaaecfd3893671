//! `prune`: removes exited containers, stopped pods and, if requested, unused images.

use std::collections::HashSet;
use std::io::{self, BufRead, IsTerminal, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use orlop_cri_api::client::{ImageClient, RuntimeClient};
use orlop_cri_api::v1::{
    Container, ContainerFilter, ContainerState, ContainerStateValue, Image, ImageSpec, PodSandbox,
    PodSandboxFilter, PodSandboxState, PodSandboxStateValue,
};

use super::rmi;
use crate::connect::Session;
use crate::families::side_by_side;
use crate::input::{Pair, Span, map};
use crate::output::{Table, ago, short_bytes, short_id, stdout, write_all};

/// Arguments of `prune`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Remove exited containers
    #[arg(long)]
    containers: bool,

    /// Remove stopped pods
    #[arg(long)]
    pods: bool,

    /// Remove images that no container uses, except pinned images
    #[arg(long)]
    images: bool,

    /// Remove containers, pods and images
    #[arg(short, long)]
    all: bool,

    /// Remove only containers that exited longer ago than this (pods: created longer ago)
    #[arg(long, value_name = "TIME")]
    older: Option<Span>,

    /// Remove only containers and pods with this label
    #[arg(
        long,
        value_name = "KEY=VALUE",
        value_delimiter = ',',
        conflicts_with = "images"
    )]
    label: Vec<Pair>,

    /// Print what would be removed, but remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

/// Objects to remove.
struct Doomed {
    pods: Vec<PodSandbox>,
    containers: Vec<Container>,
    images: Vec<Image>,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let client = session.patient_runtime(None).await?;
    let images = session.patient_images().await?;
    let doomed = find(&args, session, &client, &images).await?;
    if doomed.is_empty() {
        say!("nothing to remove");
        return Ok(());
    }
    let mut out = stdout();
    doomed.table().print(&mut out)?;
    out.flush()?;
    drop(out);
    if args.dry_run {
        return Ok(());
    }
    if !args.yes && !agreed()? {
        say!("nothing was removed");
        return Ok(());
    }
    remove(doomed, client, images).await
}

async fn find(
    args: &Args,
    session: &Session,
    client: &RuntimeClient,
    images: &ImageClient,
) -> anyhow::Result<Doomed> {
    let chosen = args.containers || args.pods || args.images;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let latest = args.older.map(|span| now.saturating_sub(span.0));
    let mut doomed = Doomed {
        pods: Vec::new(),
        containers: Vec::new(),
        images: Vec::new(),
    };
    if args.pods || args.all || !chosen {
        doomed.pods = stopped_pods(client, args, latest).await?;
    }
    if args.containers || args.all || !chosen {
        doomed.containers = ended_containers(client, args, latest).await?;
        // Containers are removed with their pod.
        let pods: HashSet<_> = doomed.pods.iter().map(|pod| pod.id.clone()).collect();
        doomed
            .containers
            .retain(|container| !pods.contains(&container.pod_sandbox_id));
    }
    if args.images || args.all {
        let going: HashSet<String> = doomed.containers.iter().map(|c| c.id.clone()).collect();
        let pods: HashSet<String> = doomed.pods.iter().map(|pod| pod.id.clone()).collect();
        let in_use = rmi::in_use(session, images, |container| {
            !going.contains(&container.id) && !pods.contains(&container.pod_sandbox_id)
        })
        .await?;
        doomed.images = images.list_images(None).await?;
        doomed
            .images
            .retain(|image| !image.pinned && !in_use.contains(&image.id));
    }
    Ok(doomed)
}

async fn stopped_pods(
    client: &RuntimeClient,
    args: &Args,
    latest: Option<Duration>,
) -> anyhow::Result<Vec<PodSandbox>> {
    let filter = PodSandboxFilter {
        state: Some(PodSandboxStateValue {
            state: PodSandboxState::SandboxNotready.into(),
        }),
        label_selector: map(&args.label),
        ..Default::default()
    };
    let mut pods = client.list_pod_sandbox(Some(filter)).await?;
    pods.retain(|pod| is_older(pod.created_at, latest));
    Ok(pods)
}

async fn ended_containers(
    client: &RuntimeClient,
    args: &Args,
    latest: Option<Duration>,
) -> anyhow::Result<Vec<Container>> {
    let filter = ContainerFilter {
        state: Some(ContainerStateValue {
            state: ContainerState::ContainerExited.into(),
        }),
        label_selector: map(&args.label),
        ..Default::default()
    };
    let mut found = client.list_containers(Some(filter)).await?;
    if latest.is_some() {
        let mut old = Vec::new();
        for container in found {
            let status = match client.container_status(&container.id, false).await {
                Err(error) if error.is_not_found() => continue,
                answer => answer?.status.unwrap_or_default(),
            };
            if is_older(status.finished_at, latest) {
                old.push(container);
            }
        }
        found = old;
    }
    Ok(found)
}

fn is_older(nanoseconds: i64, latest: Option<Duration>) -> bool {
    latest.is_none_or(|latest| i128::from(nanoseconds) <= latest.as_nanos().cast_signed())
}

impl Doomed {
    fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.containers.is_empty() && self.images.is_empty()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(["KIND", "ID", "NAME", "CREATED", "SIZE"]);
        for pod in &self.pods {
            let metadata = pod.metadata.clone().unwrap_or_default();
            let name = format!("{}/{}", metadata.namespace, metadata.name);
            table.row(["pod", short_id(&pod.id), &name, &ago(pod.created_at), ""]);
        }
        for container in &self.containers {
            let name = container.metadata.clone().unwrap_or_default().name;
            let created = ago(container.created_at);
            table.row(["container", short_id(&container.id), &name, &created, ""]);
        }
        for image in &self.images {
            let names = if image.repo_tags.is_empty() {
                &image.repo_digests
            } else {
                &image.repo_tags
            };
            let size = short_bytes(image.size);
            table.row(["image", short_id(&image.id), &names.join(", "), "", &size]);
        }
        table
    }
}

/// Asks for confirmation; fails if there is no terminal to ask on.
fn agreed() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!(
            "cannot ask for confirmation without a terminal; use --yes to remove the objects, or \
             --dry-run to only list them"
        );
    }
    eprint!("Remove all these objects? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

async fn remove(doomed: Doomed, client: RuntimeClient, images: ImageClient) -> anyhow::Result<()> {
    let containers = side_by_side::each(doomed.containers, |container| {
        let client = client.clone();
        async move {
            client.remove_container(&container.id).await?;
            Ok(write_all(&format!("Removed container {}\n", container.id))?)
        }
    })
    .await;
    let pods = side_by_side::each(doomed.pods, |pod| {
        let client = client.clone();
        async move {
            // Even a stopped pod may hold resources such as an address; stopping releases them.
            client.stop_pod_sandbox(&pod.id).await?;
            client.remove_pod_sandbox(&pod.id).await?;
            Ok(write_all(&format!("Removed sandbox {}\n", pod.id))?)
        }
    })
    .await;
    let images = side_by_side::each(doomed.images, |image| {
        let images = images.clone();
        async move {
            let spec = ImageSpec {
                image: image.id.clone(),
                ..Default::default()
            };
            images.remove_image(spec).await?;
            Ok(write_all(&rmi::deleted(&image))?)
        }
    })
    .await;
    side_by_side::errors(vec![containers, pods, images])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn young_things_stay() {
        let latest = Some(Duration::from_secs(100));
        assert!(is_older(99_000_000_000, latest));
        assert!(!is_older(101_000_000_000, latest));
        assert!(is_older(i64::MAX, None));
    }
}
