//! `update-runtime-config`: updates the runtime with settings of the cluster.

use orlop_cri_api::v1::{NetworkConfig, RuntimeConfig};

use crate::connect::Session;

/// Arguments of `update-runtime-config`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// CIDR for pod IP addresses; two CIDRs separated by a comma for dual stack
    #[arg(short, long, value_name = "CIDR")]
    pod_cidr: String,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let client = session.patient_runtime(None).await?;
    let config = RuntimeConfig {
        network_config: Some(NetworkConfig {
            pod_cidr: args.pod_cidr,
        }),
    };
    client.update_runtime_config(config).await?;
    say!("the runtime configuration was updated");
    Ok(())
}
