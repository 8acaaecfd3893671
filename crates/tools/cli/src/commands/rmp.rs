//! `rmp`: removes pods.

use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::v1::{PodSandboxState, PodSandboxStatus};

use crate::connect::Session;
use crate::families::removal::{self, Chosen, Removable};
use crate::input::select;
use crate::output::write_all;

/// Arguments of `rmp`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the pods
    #[arg(
        value_name = "POD",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pods: Vec<String>,

    /// Also remove running pods
    #[arg(short, long)]
    force: bool,

    /// Remove all pods
    #[arg(short, long)]
    all: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let pods = Pods(session.patient_runtime(None).await?);
    let chosen = Chosen {
        words: &args.pods,
        all: args.all,
        force: args.force,
    };
    removal::remove(&pods, chosen).await
}

struct Pods(RuntimeClient);

impl Removable for Pods {
    const NAME: &'static str = "pod";
    type Status = Option<PodSandboxStatus>;

    async fn all(&self) -> anyhow::Result<Vec<String>> {
        let all = self.0.list_pod_sandbox(None).await?;
        Ok(all.into_iter().map(|pod| pod.id).collect())
    }

    async fn find(&self, words: &[String]) -> anyhow::Result<Vec<String>> {
        select::pods(&self.0, words).await
    }

    async fn status(&self, id: &str) -> anyhow::Result<Option<PodSandboxStatus>> {
        Ok(self.0.pod_sandbox_status(id, false).await?.status)
    }

    fn runs(status: &Option<PodSandboxStatus>) -> bool {
        let ready = PodSandboxState::SandboxReady;
        status
            .as_ref()
            .is_some_and(|status| status.state() == ready)
    }

    async fn stop(&self, id: &str) -> anyhow::Result<()> {
        self.0.stop_pod_sandbox(id).await?;
        Ok(write_all(&format!("Stopped sandbox {id}\n"))?)
    }

    async fn remove(&self, id: &str) -> anyhow::Result<()> {
        Ok(self.0.remove_pod_sandbox(id).await?)
    }

    fn removed(&self, id: &str, _: &Self::Status) -> anyhow::Result<()> {
        Ok(write_all(&format!("Removed sandbox {id}\n"))?)
    }
}
