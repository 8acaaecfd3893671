//! From a CRI container request to an OCI specification, one file per concern.

mod adjust;
mod annotations;
mod apparmor;
mod apparmor_default;
mod args;
mod asked;
mod block_io;
mod build;
mod capabilities;
mod cdi;
mod cgroup_parent;
mod classes;
mod declared_volumes;
mod default_mounts;
mod devices;
mod error;
mod exec;
mod hidden_paths;
mod hook_dirs;
mod host;
mod image_volumes;
mod input;
mod mounts;
mod namespaces;
mod oom;
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
mod security_profile;
mod selinux;
mod selinux_levels;
mod stop_signal;
mod sysctls;
mod user;
mod user_files;
mod userns;
mod volume_copy;
mod working_dir;

pub use adjust::{AdjustFacts, adjust};
pub use annotations::of_pod as pod_annotations;
pub use apparmor::AppArmor;
pub use asked::Asked;
pub use block_io::BlockIoClasses;
pub use build::build;
pub use cdi::DEFAULT_DIRS as CDI_DIRS;
pub use cgroup_parent::CgroupParent;
pub use error::Error;
pub use exec::{ExecAffinity, process as exec_process};
pub use image_volumes::asked_image;
pub use input::{
    HandlerFacts, HostFacts, ImageFacts, ImageMount, Known, PodFacts, PodFiles, PodNamespaces,
    Policy, RootfsFacts, SpecInput,
};
pub use plugin_resources::limits as plugin_limits;
pub use pod_limits::pod_limits;
pub use resources::{limits, report as report_resources, updated as updated_resources};
pub use selinux::Labels;
pub use selinux_levels::Levels;
pub use stop_signal::StopSignal;
pub use sysctls::of_pod as pod_sysctls;
pub use userns::IdRanges;
