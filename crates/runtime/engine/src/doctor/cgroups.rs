//! Check of the cgroup controllers that limit pods.

use orlop_cgroup::Hierarchies;

use super::Finding;

const AREA: &str = "cgroups";

pub(super) fn examine() -> Vec<Finding> {
    let hierarchies = match Hierarchies::detect() {
        Ok(hierarchies) => hierarchies,
        Err(error) => {
            let remedy = "mount cgroup2 on /sys/fs/cgroup";
            return vec![Finding::problem(AREA, error.to_string(), remedy)];
        }
    };
    let version = if hierarchies.is_v2() { "2" } else { "1" };
    let mut findings = vec![Finding::ok(AREA, format!("version {version}"))];
    let needed = [
        ("cpu", true),
        ("memory", true),
        ("pids", true),
        ("cpuset", false),
        ("hugetlb", false),
    ];
    for (controller, always) in needed {
        if hierarchies.has(controller) {
            continue;
        }
        let text = format!("the cgroup controller {controller} is missing");
        findings.push(if always {
            let remedy = format!("boot with the {controller} controller enabled");
            Finding::problem(AREA, text, remedy)
        } else {
            let remedy =
                format!("to run pods that use it, boot with the {controller} controller enabled");
            Finding::warning(AREA, text, remedy)
        });
    }
    if !hierarchies.swap_accounting() {
        findings.push(Finding::warning(
            AREA,
            "swap accounting is disabled; memory limits do not include swap",
            "boot with swapaccount=1 if the kernel supports this parameter",
        ));
    }
    findings
}
