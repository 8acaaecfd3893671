//! `update`: changes the resource limits of containers.

use anyhow::Context;
use orlop_cri_api::v1::{LinuxContainerResources, UpdateContainerResourcesRequest};

use crate::connect::Session;
use crate::input::select;
use crate::output::write_all;

/// Arguments of `update`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the containers
    #[arg(value_name = "CONTAINER", required = true)]
    containers: Vec<String>,

    /// CPU CFS period in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    cpu_period: i64,

    /// CPU CFS quota in microseconds; -1 for no limit
    #[arg(
        long,
        value_name = "MICROSECONDS",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    cpu_quota: i64,

    /// CPU shares (relative weight)
    #[arg(long, value_name = "SHARES", default_value_t = 0)]
    cpu_share: i64,

    /// Memory limit in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    memory: i64,

    /// CPUs to use, such as 0-2,7
    #[arg(long, value_name = "LIST", default_value = "")]
    cpuset_cpus: String,

    /// Memory nodes to use
    #[arg(long, value_name = "LIST", default_value = "")]
    cpuset_mems: String,

    /// OOM score adjustment: -1000 to 1000; the kernel kills a higher score first
    #[arg(
        long,
        value_name = "SCORE",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    oom_score_adj: i64,

    /// No effect: for Windows only
    #[arg(long, hide = true)]
    cpu_count: Option<i64>,

    /// No effect: for Windows only
    #[arg(long, hide = true)]
    cpu_maximum: Option<i64>,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    if args.cpu_count.or(args.cpu_maximum).is_some() {
        say!(
            "warning: --cpu-count and --cpu-maximum have no effect, because they are only for \
             Windows"
        );
    }
    let client = session.patient_runtime(None).await?;
    let limits = LinuxContainerResources {
        cpu_period: args.cpu_period,
        cpu_quota: args.cpu_quota,
        cpu_shares: args.cpu_share,
        memory_limit_in_bytes: args.memory,
        oom_score_adj: args.oom_score_adj,
        cpuset_cpus: args.cpuset_cpus,
        cpuset_mems: args.cpuset_mems,
        ..Default::default()
    };
    for id in select::containers(&client, &args.containers).await? {
        let request = UpdateContainerResourcesRequest {
            container_id: id.clone(),
            linux: Some(limits.clone()),
            ..Default::default()
        };
        let updated = client.update_container_resources(request).await;
        updated.with_context(|| format!("cannot update container {id}"))?;
        write_all(&format!("{id}\n"))?;
    }
    Ok(())
}
