//! `pull`: pulls an image.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use orlop_cri_api::client::PullRequest;
use orlop_cri_api::v1::{AuthConfig, ImageSpec, PodSandboxConfig};

use crate::connect::{Dialect, Session};
use crate::families::here;
use crate::input::schema::PodSchema;
use crate::input::{Pair, Span, manifest, map};
use crate::output::write_all;
use crate::terminal::{CredentialFlags, Progress};

/// Arguments of `pull`.
#[derive(Debug, clap::Args)]
#[command(subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    schema: Option<PodSchema>,

    /// Name of the image
    #[arg(value_name = "IMAGE", required = true)]
    image: Option<String>,

    /// Configuration file of the pod that uses the image, JSON or YAML
    #[arg(long, value_name = "POD-CONFIG")]
    pod_config: Option<PathBuf>,

    /// Annotation of the image for the runtime
    #[arg(short, long, value_name = "KEY=VALUE", value_delimiter = ',')]
    annotation: Vec<Pair>,

    #[command(flatten)]
    credentials: CredentialFlags,

    /// Maximum time to wait
    #[arg(long, alias = "pt", value_name = "TIME", env = "CRICTL_PULL_TIMEOUT")]
    pull_timeout: Option<Span>,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    if let Some(schema) = args.schema {
        return schema.print();
    }
    let name = args.image.unwrap_or_default();
    if name.is_empty() {
        bail!("the name of the image is empty");
    }
    let auth = args.credentials.resolve()?;
    let pod = args.pod_config.as_deref().map(manifest::pod).transpose()?;
    let image = ImageSpec {
        image: name,
        annotations: map(&args.annotation),
        ..Default::default()
    };
    let timeout = args.pull_timeout.map(|span| span.0);
    let id = fetch(session, image, auth, pod, timeout).await?;
    if session.dialect == Dialect::Orlop {
        say_what_comes_later(session, &id).await?;
    }
    Ok(write_all(&format!("Image is up to date for {id}\n"))?)
}

/// Prints how many layers are fetched lazily.
async fn say_what_comes_later(session: &Session, id: &str) -> anyhow::Result<()> {
    let connection = session.quick_image_connection().await?;
    let missing = here::ask(connection.orlop_images(), id).await;
    if let Some(image) = missing.get(id) {
        say!(
            "{} of {} layers are fetched on demand",
            image.lazy_layers,
            image.layers
        );
    }
    Ok(())
}

/// Pulls the image, and shows progress if the runtime reports it.
pub(super) async fn fetch(
    session: &Session,
    image: ImageSpec,
    auth: Option<AuthConfig>,
    pod: Option<PodSandboxConfig>,
    timeout: Option<Duration>,
) -> anyhow::Result<String> {
    let connection = session.patient_image_connection().await?;
    let name = image.image.clone();
    let progress = Progress::watch(connection.orlop_images(), &name).await;
    let pull = connection.images();
    let pull = pull.pull_image(PullRequest { image, auth, pod });
    let pulled = match timeout.filter(|timeout| !timeout.is_zero()) {
        None => pull.await,
        Some(limit) => match tokio::time::timeout(limit, pull).await {
            Ok(result) => result,
            Err(_) => bail!("cannot pull {name} within {limit:?}"),
        },
    };
    if pulled.is_ok() {
        progress.finish().await;
    }
    pulled.with_context(|| format!("cannot pull {name}"))
}
