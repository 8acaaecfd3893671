//! Return values of a filter to the kernel (`SECCOMP_RET_*`, `linux/seccomp.h`).

use orlop_oci_types::SeccompAction;

pub(crate) const KILL_THREAD: u32 = 0;
pub(crate) const KILL_PROCESS: u32 = 0x8000_0000;
pub(crate) const TRAP: u32 = 0x0003_0000;
pub(crate) const ERRNO: u32 = 0x0005_0000;
pub(crate) const NOTIFY: u32 = 0x7fc0_0000;
pub(crate) const TRACE: u32 = 0x7ff0_0000;
pub(crate) const LOG: u32 = 0x7ffc_0000;
pub(crate) const ALLOW: u32 = 0x7fff_0000;

/// The action part of a return value; the rest is an error number, or a tracer's value.
pub(crate) const ACTION: u32 = 0xffff_0000;
const DATA: u32 = 0x0000_ffff;

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// The return value for calls that are newer than a profile.
pub(crate) const UNKNOWN_CALL: u32 = ERRNO | ENOSYS;

/// Returns the return value for an action of a profile; `errno` is used only by actions that have one.
pub(crate) fn answer(action: SeccompAction, errno: Option<u32>) -> u32 {
    let errno = errno.unwrap_or(EPERM) & DATA;
    match action {
        SeccompAction::Kill | SeccompAction::KillThread => KILL_THREAD,
        SeccompAction::KillProcess => KILL_PROCESS,
        SeccompAction::Trap => TRAP,
        SeccompAction::Errno => ERRNO | errno,
        SeccompAction::Trace => TRACE | errno,
        SeccompAction::Allow => ALLOW,
        SeccompAction::Log => LOG,
        SeccompAction::Notify => NOTIFY,
    }
}

/// Returns whether a profile with this default allows calls that it does not name. A tracer is assumed to know calls
/// that are newer than the profile.
pub(crate) fn is_permissive(answer: u32) -> bool {
    matches!(answer & ACTION, ALLOW | LOG | TRACE)
}
