//! A shim's configuration over an engine of a test.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use orlop_dockershim::config::{Config, Containers, Hairpin, Network, NetworkPlugin, Streaming};
use orlop_testkit::Scratch;

/// Of nothing but what is needed; all that is kept is in `scratch`.
pub(crate) fn config(scratch: &Scratch, endpoint: &Path) -> Config {
    Config {
        endpoint: endpoint.to_owned(),
        root: scratch.path("shim"),
        pause_image: None,
        policies: None,
        credential_files: Vec::new(),
        pull_progress_deadline: Duration::from_secs(10),
        event_backlog: Duration::from_mins(1),
        listeners: scratch.path("listeners"),
        request_timeout: Duration::from_secs(10),
        runtime_cgroup: None,
        cgroup_driver: None,
        plugin: NetworkPlugin::None,
        hairpin: Hairpin::None,
        dual_stack: false,
        network: Network::new(scratch.path("network")),
        streaming: Streaming {
            listen: ([127, 0, 0, 1], 0).into(),
            tls: None,
            client_ca: None,
            terms: orlop_streaming::TlsTerms::default(),
            idle_timeout: Duration::from_secs(10),
        },
        containers: Containers {
            max_log_line: 16 << 10,
            exec_output_limit: 1 << 20,
            exec_output_memory: 16 << 20,
            message_limit: 16 << 20,
            pids_limit: None,
            ulimits: Vec::new(),
            sysctls: BTreeMap::new(),
            seccomp_when_unset: false,
        },
    }
}
