//! The size of a pod's `/dev/shm`.

use orlop_cri_api::v1;
use orlop_text::quantity::Quantity;

use super::Error;
use super::handler_rules::{HandlerRules, SHM_SIZE};
use super::input::Policy;

/// The default size, as in containerd and CRI-O.
pub const USUAL: u64 = 64 << 20;

/// Returns the size of a pod's shared memory in bytes: the annotation's, else the node's configuration.
/// Data in it counts as memory of the container that writes it.
pub fn size(
    pod: &v1::PodSandboxConfig,
    rules: &HandlerRules,
    policy: &Policy,
) -> Result<u64, Error> {
    let Some(wanted) = rules.acted_on(SHM_SIZE, pod, &policy.default_annotations) else {
        return Ok(policy.shm_size.unwrap_or(USUAL));
    };
    parse(wanted).map_err(|problem| Error::invalid(format!("annotation {SHM_SIZE}"), problem))
}

/// Parses the size in an annotation.
pub(super) fn parse(wanted: &str) -> Result<u64, String> {
    let amount: Option<Quantity> = wanted.trim().parse().ok();
    // The kernel takes zero for no limit.
    let bytes = amount.and_then(Quantity::count).filter(|bytes| *bytes > 0);
    bytes
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| format!("{wanted:?} is not a size; use a value such as 128Mi or 1G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_quantity_that_is_more_than_nothing() {
        let rules = HandlerRules {
            allowed_annotations: vec![SHM_SIZE.to_owned()],
            ..HandlerRules::default()
        };
        let policy = Policy {
            shm_size: Some(7),
            ..Policy::default()
        };
        let of = |value: &str| {
            let mut pod = v1::PodSandboxConfig::default();
            pod.annotations
                .insert(SHM_SIZE.to_owned(), value.to_owned());
            size(&pod, &rules, &policy)
        };
        assert_eq!(of("128Mi").unwrap(), 128 << 20);
        for wrong in ["", "0", "-1", "much", "1 Mi", "9999E"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        let none = v1::PodSandboxConfig::default();
        assert_eq!(size(&none, &rules, &policy).unwrap(), 7);
    }
}
