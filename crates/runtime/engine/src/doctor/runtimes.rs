//! Check of the OCI runtimes.

use std::time::Duration;

use super::Finding;
use crate::config::Config;
use crate::error::chain;
use crate::node::cgroups::Cgroups;
use crate::node::runtimes::{self, Trial};

const AREA: &str = "runtimes";

/// Time limit for a runtime to report its version.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    let driver = match Cgroups::find(config) {
        Ok(cgroups) => cgroups.driver(),
        Err(error) => {
            let remedy = "fix the reported cgroup problems first";
            return vec![Finding::problem(AREA, chain(&*error), remedy)];
        }
    };
    let trials = runtimes::try_all(config, driver).await;
    let configured = !config.runtimes.is_empty();
    let mut findings = Vec::new();
    let mut works = false;
    for Trial { runtime, result } in trials {
        let name = &runtime.name;
        match result {
            Ok(()) => {
                works = true;
                let version = runtime.version(LIMIT).await.unwrap_or_default();
                let features = runtime.features(LIMIT).await.unwrap_or_default();
                let user = if features.user_namespaces() {
                    ""
                } else {
                    "no "
                };
                let read_only = if features.recursive_read_only() {
                    ""
                } else {
                    "no "
                };
                findings.push(Finding::ok(
                    AREA,
                    format!(
                        "{name} works ({version}; {user}user namespaces, \
                         {read_only}recursive read-only mounts)"
                    ),
                ));
            }
            Err(error) => {
                let text = format!("{name} does not work on this host: {}", chain(&error));
                findings.push(if configured {
                    let remedy = format!("fix or remove [runtimes.{name}]");
                    Finding::problem(AREA, text, remedy)
                } else {
                    Finding::warning(AREA, text, "no action is needed if another runtime works")
                });
            }
        }
    }
    if !works {
        let text = "no runtime works on this host";
        findings.push(Finding::problem(
            AREA,
            text,
            "install orlop-run next to orlop, or install crun or runc",
        ));
    }
    findings
}
