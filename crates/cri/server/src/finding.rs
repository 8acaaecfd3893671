//! Node checks that both backends share.

use orlop_cri_api::inspection::Finding;
use orlop_network::Status;

/// Whether pods can be attached to the network.
pub fn of_network(status: &Status) -> Finding {
    const AREA: &str = "network";
    match status {
        Status::Ready { warnings } if warnings.is_empty() => {
            Finding::ok(AREA, "pods can be attached to the network")
        }
        Status::Ready { warnings } => {
            let remedy = "fix the CNI configuration";
            Finding::warning(AREA, warnings.join("; "), remedy)
        }
        Status::NotReady { message, .. } => {
            let remedy = "fix the CNI configuration, or install the plugins that it uses";
            Finding::problem(AREA, message, remedy)
        }
    }
}
