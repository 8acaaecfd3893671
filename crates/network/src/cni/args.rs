//! Arguments that plugins receive in addition to their configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The `CNI_ARGS` and capability arguments of an attachment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeArgs {
    /// Pairs of `KEY` and `value`, in order.
    pub cni_args: Vec<(String, String)>,
    /// Arguments by capability, passed to plugins that declare it.
    pub capability_args: BTreeMap<String, Value>,
}

impl RuntimeArgs {
    /// Returns `CNI_ARGS` in the form that plugins read.
    pub fn cni_args_text(&self) -> String {
        let pairs: Vec<_> = self
            .cni_args
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        pairs.join(";")
    }
}
