//! What is told to every plugin beside its configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `CNI_ARGS` and the capabilities' arguments, from an attachment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RuntimeArgs {
    /// `KEY`, `value` pairs in order.
    pub cni_args: Vec<(String, String)>,
    /// Values by capability, offered to plugins that declare it.
    pub capability_args: BTreeMap<String, Value>,
}

impl RuntimeArgs {
    /// `CNI_ARGS` as plugins read it.
    pub fn cni_args_text(&self) -> String {
        let pairs: Vec<_> = self
            .cni_args
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        pairs.join(";")
    }
}
