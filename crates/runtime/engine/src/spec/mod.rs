//! Conversion of a CRI container request to an OCI specification, one file per concern.

mod adjust;
mod annotations;
mod apparmor;
mod apparmor_default;
mod args;
mod asked;
mod base;
mod block_io;
mod build;
mod capabilities;
mod cdi;
mod cgroup_parent;
mod classes;
mod clean_path;
mod declared_volumes;
mod default_annotations;
mod default_mounts;
mod devices;
mod error;
mod exec;
mod gomaxprocs;
mod handler_rules;
mod hidden_paths;
mod hook_dirs;
mod host;
mod image_volumes;
mod input;
mod mounts;
mod namespaces;
mod oom;
mod pattern;
mod plugin_resources;
mod pod_limits;
mod propagation;
mod rdt;
mod resources;
mod rlimits;
mod rootfs;
#[cfg(test)]
mod runc_tests;
mod seccomp;
mod seccomp_default;
#[cfg(test)]
mod seccomp_peers_tests;
mod security_profile;
mod selinux;
mod selinux_levels;
mod selinux_node;
mod shm;
mod stop_signal;
mod sysctl_names;
mod sysctls;
mod timezone;
mod umask;
mod user;
mod user_files;
mod userns;
mod volume_copy;
mod working_dir;

pub use adjust::{AdjustFacts, adjust};
pub use annotations::of_pod as pod_annotations;
pub use apparmor::AppArmor;
pub use asked::Asked;
pub use base::BaseSpec;
pub use block_io::BlockIoClasses;
pub use build::build;
pub use cdi::DEFAULT_DIRS as CDI_DIRS;
pub use cgroup_parent::CgroupParent;
pub use default_annotations::problem_of_defaults;
pub use error::Error;
pub use exec::{ExecAffinity, process as exec_process};
pub use handler_rules::HandlerRules;
pub use image_volumes::asked_image;
pub use input::{
    HandlerFacts, HostFacts, ImageFacts, ImageMount, Known, PodFacts, PodFiles, PodNamespaces,
    Policy, RootfsFacts, SpecInput,
};
pub use plugin_resources::limits as plugin_limits;
pub use pod_limits::pod_limits;
pub use rdt::RdtClasses;
pub use resources::{limits, report as report_resources, updated as updated_resources};
pub use selinux::Labels;
pub use selinux_levels::{CATEGORIES as SELINUX_CATEGORIES, Levels};
pub use selinux_node::problem as selinux_problem;
pub use shm::size as shm_size;
pub use stop_signal::StopSignal;
pub use sysctls::of_pod as pod_sysctls;
pub use timezone::Timezone;
pub use userns::IdRanges;
#[cfg(test)]
pub(crate) use {host::tests::facts as host_facts, selinux::SelinuxDefaults};
