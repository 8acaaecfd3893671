//! The CRI configuration of sandboxes and containers.
//!
//! Not supported yet: exclusive CPUs, device plugins and CDI.

mod container;
mod dns;
mod env_file;
mod environment;
mod expand;
mod fields;
mod hosts;
mod memory_qos;
mod pod_resources;
mod qos;
mod resources;
mod sandbox;
mod security;
mod swap;

pub use container::{ContainerInput, container_config};
pub use dns::{HostResolver, PodResolver, pod_dns};
pub use env_file::{EnvFiles, env_files};
pub use environment::{Values, environment};
pub use expand::{expand, expand_env};
pub use fields::{NodeFacts, field, resource_field};
pub use hosts::{full_name, host_name, hosts_file, node_hosts_file};
pub use memory_qos::{MemoryQos, Protection, protect_memory};
pub use pod_resources::{overhead, pod_limit, pod_request, pod_resources};
pub use qos::{QosClass, oom_score_adj, qos_class};
pub use resources::{container_resources, cpu_quota, cpu_shares};
pub use sandbox::{SandboxInput, sandbox_config};
pub use security::{ImageUser, RootRefused, check_non_root};
pub use swap::{SwapBehavior, SwapFacts, limit_swap};
