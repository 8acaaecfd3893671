//! Integration of Node Resource Interface plugins: their view of pods and containers, and the changes they may make.
//!
//! The engine never calls a plugin while it holds a container's lock: the plugin may answer with an update of that same
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
