//! `null` for a default, as manifests write it.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the default: manifests leave a key without a value (`env:`), and Kubernetes
/// takes that for an empty one.
pub(super) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
