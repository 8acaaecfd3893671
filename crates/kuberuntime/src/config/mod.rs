//! What the runtime is told about a sandbox and a container.
//!
//! Not here yet: the sandbox's sums of resources and overhead, full host names, user namespaces,
//! exclusive processors, memory quality of service and `memory.oom.group`, swap, device plugins
//! and CDI, and values that come from elsewhere (`valueFrom`, volumes): the caller passes
//! mounts and variables that are resolved already.

mod container;
mod expand;
mod qos;
mod resources;
mod sandbox;
mod security;

pub use container::{ContainerInput, container_config};
pub use expand::{expand, expand_env};
pub use qos::{QosClass, oom_score_adj, qos_class};
pub use resources::{container_resources, cpu_quota, cpu_shares};
pub use sandbox::{SandboxInput, sandbox_config};
pub use security::{ImageUser, RootRefused, check_non_root};
