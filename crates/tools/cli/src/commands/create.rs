//! `create`: creates a container in a pod.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::v1::PodSandboxConfig;

use super::pull;
use crate::connect::Session;
use crate::input::schema::AnySchema;
use crate::input::{Span, manifest, select};
use crate::output::write_all;
use crate::terminal::{CredentialFlags, interrupt};

/// Arguments of `create`.
#[derive(Debug, clap::Args)]
#[command(subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    schema: Option<AnySchema>,

    /// Name or ID of the pod
    #[arg(value_name = "POD", required = true)]
    pod: Option<String>,

    /// Container configuration file, JSON or YAML
    #[arg(value_name = "CONTAINER-CONFIG", required = true)]
    config: Option<PathBuf>,

    /// Pod configuration file, JSON or YAML
    #[arg(value_name = "POD-CONFIG", required = true)]
    pod_config: Option<PathBuf>,

    #[command(flatten)]
    pull: PullFlags,
}

/// Flags that control the pull before a container is created.
#[derive(Debug, clap::Args)]
pub(super) struct PullFlags {
    /// Do not pull the image, even if the client configuration says so
    #[arg(long, conflicts_with = "with_pull")]
    no_pull: bool,

    /// Pull the image first, even if the client configuration says otherwise
    #[arg(long)]
    with_pull: bool,

    #[command(flatten)]
    credentials: CredentialFlags,

    /// Maximum time to wait for the pull
    #[arg(long, alias = "pt", value_name = "TIME", env = "CRICTL_PULL_TIMEOUT")]
    pull_timeout: Option<Span>,

    /// Maximum time to wait
    #[arg(short = 'T', long, value_name = "TIME")]
    cancel_timeout: Option<Span>,
}

impl PullFlags {
    /// Returns whether to pull, given the default.
    pub(super) fn wanted(&self, usual: bool) -> bool {
        self.with_pull || (usual && !self.no_pull)
    }

    /// Returns the timeout of the calls themselves.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.cancel_timeout.map(|span| span.0)
    }
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    if let Some(schema) = args.schema {
        return schema.print();
    }
    let (Some(pod), Some(config), Some(pod_config)) = (&args.pod, &args.config, &args.pod_config)
    else {
        bail!("no configuration file given");
    };
    let client = session.patient_runtime(args.pull.patience()).await?;
    let pod = select::pod(&client, pod).await?;
    let pod_config = manifest::pod(pod_config)?;
    let wanted = args.pull.wanted(session.pull_on_create);
    let id = create(
        session, &client, &pod, config, pod_config, &args.pull, wanted,
    )
    .await?;
    Ok(write_all(&format!("{id}\n"))?)
}

/// Creates a container after pulling its images if requested.
pub(super) async fn create(
    session: &Session,
    client: &RuntimeClient,
    pod: &str,
    config: &Path,
    pod_config: PodSandboxConfig,
    flags: &PullFlags,
    pull_first: bool,
) -> anyhow::Result<String> {
    let config = manifest::container(config)?;
    if pull_first {
        let auth = flags.credentials.resolve()?;
        let mounted = config
            .mounts
            .iter()
            .filter_map(|mount| mount.image.as_ref());
        let images: Vec<_> = config
            .image
            .iter()
            .chain(mounted.filter(|image| !image.image.is_empty()))
            // An absolute path is a checkpoint archive on the node.
            .filter(|image| !image.image.starts_with('/'))
            .cloned()
            .collect();
        for image in images {
            say!("pulling {}", image.image);
            let timeout = flags.pull_timeout.map(|span| span.0);
            pull::fetch(
                session,
                image,
                auth.clone(),
                Some(pod_config.clone()),
                timeout,
            )
            .await?;
        }
    }
    let making = client.create_container(pod, config, pod_config);
    let created = interrupt::or_undo(making, |id| {
        let client = client.clone();
        async move { Ok(client.remove_container(&id).await?) }
    });
    created.await.context("cannot create the container")
}
