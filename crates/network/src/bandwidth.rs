//! Traffic limits of a pod, and the annotations that set them.

use std::collections::BTreeMap;

use orlop_text::quantity::Quantity;
use serde::{Deserialize, Serialize};

/// The burst if an annotation names only a rate. Like the kubelet, this is the maximum of the plugins' field.
const UNLIMITED_BURST: u64 = i32::MAX as u64;

/// The smallest and largest rates the kubelet accepts: 1k and 1P bits per second.
const RATES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000_000;

/// Traffic limits in bits per second, bursts in bits; 0 means "no limit".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bandwidth {
    /// Rate towards the pod.
    #[serde(skip_serializing_if = "is_zero")]
    pub ingress_rate: u64,
    /// Burst towards the pod.
    #[serde(skip_serializing_if = "is_zero")]
    pub ingress_burst: u64,
    /// Rate from the pod.
    #[serde(skip_serializing_if = "is_zero")]
    pub egress_rate: u64,
    /// Burst from the pod.
    #[serde(skip_serializing_if = "is_zero")]
    pub egress_burst: u64,
}

/// A bandwidth annotation that cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "annotation {key}: {value:?} is not a bandwidth; use a quantity of bits per second between 1k \
     and 1P, such as 10M"
)]
pub struct InvalidBandwidth {
    key: &'static str,
    value: String,
}

impl Bandwidth {
    /// Reads `kubernetes.io/ingress-bandwidth` and `kubernetes.io/egress-bandwidth`.
    pub fn from_annotations(
        annotations: &BTreeMap<String, String>,
    ) -> Result<Option<Self>, InvalidBandwidth> {
        let rate = |key: &'static str| match annotations.get(key) {
            None => Ok(0),
            Some(value) => value
                .trim()
                .parse()
                .ok()
                .and_then(Quantity::count)
                .filter(|bits| RATES.contains(bits))
                .ok_or_else(|| InvalidBandwidth {
                    key,
                    value: value.chars().take(64).collect(),
                }),
        };
        let ingress_rate = rate("kubernetes.io/ingress-bandwidth")?;
        let egress_rate = rate("kubernetes.io/egress-bandwidth")?;
        let burst = |rate: u64| if rate == 0 { 0 } else { UNLIMITED_BURST };
        let limits = Self {
            ingress_rate,
            ingress_burst: burst(ingress_rate),
            egress_rate,
            egress_burst: burst(egress_rate),
        };
        Ok((limits != Self::default()).then_some(limits))
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(ingress: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(
            "kubernetes.io/ingress-bandwidth".to_owned(),
            ingress.to_owned(),
        )])
    }

    #[test]
    fn quantities_of_every_kind() {
        for (text, bits) in [
            ("10M", 10_000_000),
            ("1.5k", 1_500),
            ("1Mi", 1_048_576),
            ("2e6", 2_000_000),
            ("5000", 5_000),
        ] {
            let limits = Bandwidth::from_annotations(&annotations(text))
                .unwrap()
                .unwrap();
            assert_eq!(
                (limits.ingress_rate, limits.egress_rate),
                (bits, 0),
                "{text}"
            );
            assert_eq!(
                (limits.ingress_burst, limits.egress_burst),
                (UNLIMITED_BURST, 0)
            );
        }
    }

    #[test]
    fn rates_out_of_range_are_refused_by_name() {
        for text in ["1", "999", "2P", "-5M", "", "M", "ten", "1e99", "1.2.3M"] {
            let error = Bandwidth::from_annotations(&annotations(text))
                .unwrap_err()
                .to_string();
            assert!(error.contains("kubernetes.io/ingress-bandwidth"), "{error}");
        }
        assert_eq!(Bandwidth::from_annotations(&BTreeMap::new()), Ok(None));
    }
}
