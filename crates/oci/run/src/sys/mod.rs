//! System calls that no crate wraps; all unsafe code except the allocator's is here.

mod clone;
mod process;
mod rights;
mod socket;

pub(crate) use clone::{
    CloneArgs, Cloned, Side, clone, clone_away, enter_namespaces, fork, namespace_kind,
};
pub(crate) use orlop_fs::{MountAttr, set_mount_attributes};
pub(crate) use process::{
    Image, bring_up_loopback, close_from, close_now, end_when_asked, execute, execute_fd, exit_now,
    join_session_keyring, keep_open, next_signal, open_pidfd, passed_on, pidfd_signal, poll_in,
    raise_own_limit_of_files, raise_signals, set_domain_name, set_host_name, set_personality,
    set_rlimit_of, unshare_cgroup, unshare_ipc, unshare_mounts, unshare_time, wait_for,
    was_passed_on, working_directory_is_reachable,
};
pub(crate) use rights::{
    CapSets, FileMaker, SchedAttr, drop_from_bounding, last_capability, set_ambient,
    set_capability_sets, set_io_priority, set_memory_policy, set_scheduler,
};
pub(crate) use socket::{receive, receive_with, send_with};
