//! Whether the files that say where images come from can be understood.

use std::path::PathBuf;

use super::Finding;
use crate::error::chain;

const AREA: &str = "registries";

pub(super) fn examine(directories: &[PathBuf]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut good = 0;
    for (registry, problem) in orlop_image::check_registry_hosts(directories) {
        match problem {
            None => good += 1,
            Some(error) => findings.push(Finding::problem(
                AREA,
                format!("pulls from {registry} fail: {}", chain(&error)),
                "mend or remove the file",
            )),
        }
    }
    if findings.is_empty() {
        let text = format!("{good} registries have hosts of their own, all understood");
        findings.push(Finding::ok(AREA, text));
    }
    findings
}
