//! `ps`: lists containers.

use std::io::Write;

use orlop_cri_api::client::ImageClient;
use orlop_cri_api::v1::{Container, ContainerState, ImageSpec, ListContainersResponse};

use crate::connect::Session;
use crate::input::select::{ContainerFlags, pod_name, pod_namespace};
use crate::output::{self, FormatFlags, Table, ago, labels, short_id, stdout};

/// Arguments of `ps`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: ContainerFlags,

    /// Only the container with this ID
    #[arg(long)]
    id: Option<String>,

    /// Only containers in this state: created, running, exited or unknown
    #[arg(short, long)]
    state: Option<String>,

    /// Include containers that are not running
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    format: FormatFlags,

    /// Show more details of each container
    #[arg(short, long)]
    verbose: bool,

    /// Show only IDs
    #[arg(short, long)]
    quiet: bool,

    /// Show full IDs
    #[arg(long)]
    no_trunc: bool,

    /// Show image names instead of image IDs
    #[arg(short, long)]
    resolve_image_path: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_table()?;
    let client = session.runtime().await?;
    let images = session.images().await?;
    let state = args.state.as_deref();
    let containers = args
        .which
        .list(&client, &images, args.id.clone(), state, args.all)
        .await?;
    let answer = ListContainersResponse { containers };
    let mut out = stdout();
    if !output::list(&mut out, &answer, &format)? {
        if args.quiet {
            for container in &answer.containers {
                writeln!(out, "{}", container.id)?;
            }
        } else if args.verbose {
            for container in &answer.containers {
                in_full(&mut out, container)?;
            }
        } else {
            table(&answer.containers, &args, &images)
                .await?
                .print(&mut out)?;
        }
    }
    Ok(out.flush()?)
}

async fn table(
    containers: &[Container],
    args: &Args,
    images: &ImageClient,
) -> anyhow::Result<Table> {
    let mut table = Table::new([
        "CONTAINER",
        "IMAGE",
        "CREATED",
        "STATE",
        "NAME",
        "ATTEMPT",
        "POD ID",
        "POD",
        "NAMESPACE",
    ]);
    for container in containers {
        let metadata = container.metadata.clone().unwrap_or_default();
        let mut image = container
            .image
            .as_ref()
            .map_or("", |image| &image.image)
            .to_owned();
        if args.resolve_image_path {
            let spec = ImageSpec {
                image: image.clone(),
                ..Default::default()
            };
            let found = images.image_status(spec, false).await?.image;
            if let Some(tag) = found.and_then(|found| found.repo_tags.into_iter().next()) {
                image = tag;
            }
        } else if !args.no_trunc && image.starts_with("sha256:") {
            short_id(&image).to_owned().clone_into(&mut image);
        }
        let shown = |id: &str| {
            if args.no_trunc {
                id.to_owned()
            } else {
                short_id(id).to_owned()
            }
        };
        table.row([
            shown(&container.id),
            image,
            ago(container.created_at),
            state(container).to_owned(),
            metadata.name,
            metadata.attempt.to_string(),
            shown(&container.pod_sandbox_id),
            pod_name(&container.labels).to_owned(),
            pod_namespace(&container.labels).to_owned(),
        ]);
    }
    Ok(table)
}

fn in_full(out: &mut impl Write, container: &Container) -> std::io::Result<()> {
    writeln!(out, "ID: {}", container.id)?;
    writeln!(out, "PodID: {}", container.pod_sandbox_id)?;
    writeln!(out, "Namespace: {}", pod_namespace(&container.labels))?;
    if let Some(metadata) = &container.metadata {
        writeln!(out, "Name: {}", metadata.name)?;
        writeln!(out, "Attempt: {}", metadata.attempt)?;
    }
    writeln!(out, "State: {}", state(container))?;
    if let Some(image) = &container.image {
        writeln!(out, "Image: {}", image.image)?;
    }
    writeln!(out, "Created: {}", ago(container.created_at))?;
    labels(out, "Labels", &container.labels)?;
    labels(out, "Annotations", &container.annotations)?;
    writeln!(out)
}

fn state(container: &Container) -> &'static str {
    match container.state() {
        ContainerState::ContainerCreated => "Created",
        ContainerState::ContainerRunning => "Running",
        ContainerState::ContainerExited => "Exited",
        ContainerState::ContainerUnknown => "Unknown",
    }
}
