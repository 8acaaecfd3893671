//! All checks of a host.

use std::sync::Arc;

use super::{
    Finding, cgroups, clock, disk, kernel, keys, lazy, rdt, registries, runtimes, signatures,
};
use crate::blocking;
use crate::config::{Config, Images, RuntimeHandler};
use crate::error::Error;
use crate::node::runtimes::adapter;

/// Checks this host for a daemon with the given configuration. Changes nothing, but runs short tests of the runtimes.
pub async fn examine_host(config: &Config) -> Vec<Finding> {
    let own = config.clone();
    let looked = blocking(move || {
        let mut findings = kernel::examine();
        findings.extend(cgroups::examine());
        findings.extend(keeper(&own));
        findings.extend(lazy::examine(&own.images.lazy));
        findings.extend(registries::examine(&own.images));
        findings.extend(signatures::examine(&own.images));
        findings.extend(keys::examine(&own.images.keys));
        findings.extend(rdt::examine(own.containers.policy.rdt.as_ref()));
        findings.extend(disk::examine(&own));
        findings.extend(clock::examine());
        Ok(findings)
    });
    let mut findings = looked.await.unwrap_or_else(broken);
    findings.extend(runtimes::examine(config).await);
    findings
}

/// Checks this host for a daemon on top of a Docker Engine, which has its own runtimes, images and registries.
/// `policies` has the signature policies, if there are any.
pub async fn examine_host_below_docker(policies: Option<Images>) -> Vec<Finding> {
    let looked = blocking(move || {
        let mut findings = cgroups::examine();
        findings.extend(clock::examine());
        if let Some(images) = policies {
            findings.extend(registries::examine(&images));
            findings.extend(signatures::examine(&images));
        }
        Ok(findings)
    });
    looked.await.unwrap_or_else(broken)
}

fn broken(error: Arc<Error>) -> Vec<Finding> {
    let remedy = "this is a bug in orlop; please report it";
    vec![Finding::problem("doctor", error.to_string(), remedy)]
}

fn keeper(config: &Config) -> Vec<Finding> {
    let path = config.keeper.display();
    let finding = if config.keeper.is_file() {
        Finding::ok("keeper", format!("{path} exists"))
    } else {
        Finding::problem(
            "keeper",
            format!("{path} is missing"),
            "install orlop-keeper next to orlop, or set keeper.path",
        )
    };
    let mut findings = vec![finding];
    if config.runtimes.values().any(RuntimeHandler::is_shim) {
        let path = adapter(config);
        let path = path.display();
        findings.push(if adapter(config).is_file() {
            Finding::ok("shims", format!("{path} exists"))
        } else {
            Finding::problem(
                "shims",
                format!("{path} is missing, but a runtime has the kind \"shim\""),
                "install orlop-shim next to orlop-keeper",
            )
        });
    }
    findings
}
