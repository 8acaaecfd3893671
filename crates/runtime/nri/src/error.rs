//! What can go wrong in a plugin's name.

use crate::connection::CallError;

/// The result of asking the plugins.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the plugins stand against something.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A plugin refused.
    #[error("NRI plugin {plugin} failed in {call}")]
    Plugin {
        /// Which one, as `NN-name`.
        plugin: String,
        /// The call.
        call: &'static str,
        /// What it said.
        #[source]
        source: CallError,
    },
    /// Two plugins want different things.
    #[error(
        "NRI plugins {plugin:?} and {other:?} both tried to set {what}; change the configuration \
         of one of them"
    )]
    Conflict {
        /// The later one.
        plugin: String,
        /// The earlier one.
        other: String,
        /// What both want.
        what: String,
    },
    /// A plugin wants to update the container that is only being made.
    #[error("NRI plugin {plugin} requested an update of {container}, which is still being created")]
    UpdateInCreation {
        /// Which plugin.
        plugin: String,
        /// The container.
        container: String,
    },
    /// A validator said no.
    #[error("NRI validator {validator} rejected the container's adjustment: {reason}")]
    Rejected {
        /// Which one, as `NN-name`.
        validator: String,
        /// Why.
        reason: String,
    },
}
