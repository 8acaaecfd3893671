//! What plugins of the Node Resource Interface see of pods and containers, and what they may do
//! to them.
//!
//! A plugin is never asked while a container's turn is held: it may answer by updating that very
//! container.

mod hooks;
mod in_json;
mod of_oci;
mod runtime;
mod view;

pub use hooks::{
    adjust, container_removed, container_stopped, farewell, pod_removed, pod_running, pod_stopped,
    pod_updating, post_created, post_pod_updated, post_started, post_updated, starting,
    stopped_while_told, undone, updating,
};
pub use in_json::in_json;
pub use runtime::PluginRuntime;
