//! The plan that the child of the clone carries out. Everything that needs memory, the host's files or a decision is
//! done while the plan is made.

mod affinity;
pub(crate) mod capabilities;
mod cgroup_mount;
mod devices;
mod few;
mod hooks;
mod idmap;
mod maps;
mod mounts;
mod namespaces;
pub(crate) mod options;
mod process;
mod root;
mod scheduling;
mod source;
mod sysctl;
mod text;
mod tree;
mod what;

use std::ffi::CString;
use std::os::fd::OwnedFd;

use crate::error::{Error, Result};

pub(crate) use cgroup_mount::{CgroupMounts, V1};
pub(crate) use devices::{DEFAULT as DEFAULT_DEVICES, DeviceWhat};
pub(crate) use few::Few;
pub(crate) use hooks::{HookStep, HookSteps, check as check_hook, limit as limit_of_hook};
pub(crate) use idmap::Mappings;
pub(crate) use maps::write_maps;
pub(crate) use mounts::{PROC_MAGIC, is_proc, relative, source_fault};
pub(crate) use namespaces::{NEW_TIME, Namespaces};
pub(crate) use process::{ProcessPlan, Terminal};
pub(crate) use root::RootPlan;
pub(crate) use source::Source;
pub(crate) use sysctl::{Sysctl, sysctls};
pub(crate) use text::c_string;
pub(crate) use tree::Copied;
pub(crate) use what::{By, Fresh, Hierarchy, MountStep, What};

/// A container's first process and its environment.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) namespaces: Namespaces,
    /// `tasks` files of cgroup v1: a process enters a cgroup by writing `0` to one.
    pub(crate) tasks: Vec<OwnedFd>,
    /// Whether the child waits for the parent at the start.
    pub(crate) waits: bool,
    /// Whether the parent needs the child to be dumpable for that.
    pub(crate) opens_up: bool,
    /// Whether the child waits for the parent once the namespaces exist: for network devices or hooks.
    pub(crate) meets: bool,
    /// `None` without a mount namespace.
    pub(crate) root: Option<RootPlan>,
    /// The unmodified root file system if there is no mount namespace: mounts would be the host's.
    pub(crate) bare_root: Option<OwnedFd>,
    pub(crate) hostname: Option<CString>,
    pub(crate) domainname: Option<CString>,
    pub(crate) sysctls: Vec<Sysctl>,
    pub(crate) create_hooks: HookSteps,
    pub(crate) start_hooks: HookSteps,
    pub(crate) process: ProcessPlan,
    /// The directory with the fifo in which the process waits for its start.
    pub(crate) state_dir: Option<OwnedFd>,
}

impl Plan {
    /// Returns the source of the mount with this index.
    pub(crate) fn source(&self, index: u16) -> Result<&Source> {
        let mounts = self.root.iter().flat_map(|root| &root.mounts);
        let mut sources = mounts.filter_map(|step| match &step.what {
            What::Source { source, .. } if step.index == index => Some(source),
            _ => None,
        });
        let unknown = || Error::new(format!("mounts[{index}]: the source is unknown"));
        sources.next().ok_or_else(unknown)
    }
}
