//! Errors of plugin calls.

use crate::connection::CallError;

/// Result of plugin calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why plugins block an operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A plugin rejected the operation, or failed.
    #[error("NRI plugin {plugin} failed in {call}")]
    Plugin {
        /// The plugin, as `NN-name`.
        plugin: String,
        /// Name of the call.
        call: &'static str,
        /// Error of the call.
        #[source]
        source: CallError,
    },
    /// Two plugins set the same field.
    #[error(
        "NRI plugins {plugin:?} and {other:?} both tried to set {what}; change the configuration \
         of one of them"
    )]
    Conflict {
        /// The later plugin.
        plugin: String,
        /// The earlier plugin.
        other: String,
        /// The field that both set.
        what: String,
    },
    /// A plugin requested an update of the container that is being created.
    #[error("NRI plugin {plugin} requested an update of {container}, which is still being created")]
    UpdateInCreation {
        /// The plugin.
        plugin: String,
        /// ID of the container.
        container: String,
    },
    /// A validator rejected the adjustment.
    #[error("NRI validator {validator} rejected the container's adjustment: {reason}")]
    Rejected {
        /// The validator, as `NN-name`.
        validator: String,
        /// The validator's reason.
        reason: String,
    },
}
