//! The kubelet's flags that few need.

use std::collections::BTreeMap;

use clap::Args;
use orlop_agent::{AgentOptions, KubeletConfiguration};
use orlop_cli::Span;

use super::maps::pairs;

/// Flags that few need.
#[derive(Debug, Default, Args)]
pub(super) struct TuningFlags {
    /// Dead containers stay at least so long [default: 0s]
    #[arg(long, value_name = "TIME")]
    minimum_container_ttl_duration: Option<Span>,

    /// Instances of a container that stay when they are dead; negative for all [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    maximum_dead_containers_per_container: Option<i64>,

    /// Dead containers that stay on the node; negative for all [default: -1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    maximum_dead_containers: Option<i64>,

    /// The longest grace period of pods that a soft threshold ends, in seconds [default: 0]
    #[arg(long, value_name = "SECONDS")]
    eviction_max_pod_grace_period: Option<i64>,

    /// How much is reclaimed beyond a threshold, as imagefs.available=2Gi
    #[arg(long, value_name = "LIST")]
    eviction_minimum_reclaim: Option<String>,

    /// How long the node is said to be under pressure after it no longer is [default: 5m]
    #[arg(long, value_name = "TIME")]
    eviction_pressure_transition_period: Option<Span>,

    /// Sysctls that pods may set although they reach beyond them; * at the end stands for more
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    allowed_unsafe_sysctls: Vec<String>,

    /// Hold containers to their processor limits [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    cpu_cfs_quota: Option<bool>,

    /// Serve logs, exec, attach and port-forward [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    enable_debugging_handlers: Option<bool>,

    /// Refuse to start on cgroup v1 [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    fail_cgroupv1: Option<bool>,

    /// Files that the agent may have open [default: 1000000]
    #[arg(long, value_name = "N")]
    max_open_files: Option<u64>,

    /// The agent's own oom_score_adj [default: -999]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    oom_score_adj: Option<i32>,

    /// How many pods there may be for each processor; 0 for no bound [default: 0]
    #[arg(long, value_name = "N")]
    pods_per_core: Option<u32>,

    /// An exec, attach or port-forward without traffic ends after so long [default: 4h]
    #[arg(long, value_name = "TIME")]
    streaming_connection_idle_timeout: Option<Span>,

    /// VersionTLS12 or VersionTLS13
    #[arg(long, value_name = "VERSION")]
    tls_min_version: Option<String>,
}

impl TuningFlags {
    /// Lets them beat the file.
    pub(super) fn over(&self, to: &mut KubeletConfiguration) -> anyhow::Result<()> {
        fn set<T: Clone>(field: &mut T, flag: Option<&T>) {
            if let Some(value) = flag {
                field.clone_from(value);
            }
        }
        set(
            &mut to.eviction_max_pod_grace_period,
            self.eviction_max_pod_grace_period.as_ref(),
        );
        if let Some(text) = &self.eviction_minimum_reclaim {
            to.eviction_minimum_reclaim = match text.as_str() {
                "" => BTreeMap::new(),
                text => pairs("eviction-minimum-reclaim", text)?,
            };
        }
        if let Some(period) = self.eviction_pressure_transition_period {
            to.eviction_pressure_transition_period = period.0;
        }
        if !self.allowed_unsafe_sysctls.is_empty() {
            to.allowed_unsafe_sysctls
                .clone_from(&self.allowed_unsafe_sysctls);
        }
        set(&mut to.cpu_cfs_quota, self.cpu_cfs_quota.as_ref());
        set(
            &mut to.enable_debugging_handlers,
            self.enable_debugging_handlers.as_ref(),
        );
        set(&mut to.fail_cgroup_v1, self.fail_cgroupv1.as_ref());
        set(&mut to.max_open_files, self.max_open_files.as_ref());
        set(&mut to.oom_score_adj, self.oom_score_adj.as_ref());
        set(&mut to.pods_per_core, self.pods_per_core.as_ref());
        if let Some(limit) = self.streaming_connection_idle_timeout {
            to.streaming_connection_idle_timeout = limit.0;
        }
        set(&mut to.tls_min_version, self.tls_min_version.as_ref());
        Ok(())
    }

    /// What no field of the configuration is for.
    pub(super) fn beside(&self, options: &mut AgentOptions) {
        let policy = &mut options.container_gc;
        if let Some(age) = self.minimum_container_ttl_duration {
            policy.min_age = age.0;
        }
        if let Some(most) = self.maximum_dead_containers_per_container {
            policy.max_per_container = usize::try_from(most).ok();
        }
        if let Some(most) = self.maximum_dead_containers {
            policy.max_total = usize::try_from(most).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        flags: TuningFlags,
    }

    #[test]
    fn each_has_its_effect() {
        let flags = Alone::parse_from([
            "node",
            "--minimum-container-ttl-duration=1m",
            "--maximum-dead-containers-per-container=-1",
            "--maximum-dead-containers=7",
            "--eviction-minimum-reclaim=imagefs.available=2Gi",
            "--allowed-unsafe-sysctls=net.*,kernel.msgmax",
            "--cpu-cfs-quota=false",
            "--oom-score-adj=-5",
            "--pods-per-core=3",
        ])
        .flags;
        let mut written = KubeletConfiguration::default();
        flags.over(&mut written).unwrap();
        assert_eq!(written.eviction_minimum_reclaim["imagefs.available"], "2Gi");
        assert_eq!(written.allowed_unsafe_sysctls, ["net.*", "kernel.msgmax"]);
        assert_eq!(
            (
                written.cpu_cfs_quota,
                written.oom_score_adj,
                written.pods_per_core
            ),
            (false, -5, 3)
        );
        let mut options = AgentOptions::new("n", "/r");
        flags.beside(&mut options);
        let policy = options.container_gc;
        assert_eq!(policy.min_age.as_secs(), 60);
        assert_eq!(
            (policy.max_per_container, policy.max_total),
            (None, Some(7))
        );
    }
}
