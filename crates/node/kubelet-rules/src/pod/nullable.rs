//! Deserialization of `null` as the default.

use serde::{Deserialize, Deserializer};

/// Deserializes `null` as the default, because Kubernetes treats a key without a value (`env:`) as
/// empty.
pub(super) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
