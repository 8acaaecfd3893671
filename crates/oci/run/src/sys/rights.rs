//! Capabilities, scheduling, memory policy.
#![allow(
    unsafe_code,
    reason = "these calls take pointers, or are wrapped nowhere"
)]

use rustix::io::Result;
use rustix::thread::{CapabilitySets, capabilities, set_capabilities};

use super::clone::last;

/// Capability sets as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CapSets {
    pub(crate) bounding: u64,
    pub(crate) effective: u64,
    pub(crate) inheritable: u64,
    pub(crate) permitted: u64,
    pub(crate) ambient: u64,
}

/// Sets the effective, permitted and inheritable sets of this thread.
pub(crate) fn set_capability_sets(sets: &CapSets) -> Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    let mut header = Header {
        version: VERSION_3,
        pid: 0,
    };
    let half = |shift: u32| Data {
        effective: (sets.effective >> shift) as u32,
        permitted: (sets.permitted >> shift) as u32,
        inheritable: (sets.inheritable >> shift) as u32,
    };
    let data = [half(0), half(32)];
    // SAFETY: version 3 takes two structures.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Returns the highest capability that the kernel knows.
pub(crate) fn last_capability() -> u32 {
    // SAFETY: no memory is passed.
    let known = |cap: u32| unsafe { libc::prctl(libc::PR_CAPBSET_READ, cap, 0, 0, 0) } >= 0;
    let (mut lowest, mut above) = (0u32, 64u32);
    while lowest + 1 < above {
        let middle = lowest.midpoint(above);
        if known(middle) {
            lowest = middle;
        } else {
            above = middle;
        }
    }
    lowest
}

/// Adds a capability to the ambient set.
pub(crate) fn set_ambient(capability: u32) -> Result<()> {
    // SAFETY: no memory is passed.
    let result = unsafe {
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_RAISE,
            capability,
            0,
            0,
        )
    };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// `struct sched_attr` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedAttr {
    pub(crate) size: u32,
    pub(crate) policy: u32,
    pub(crate) flags: u64,
    pub(crate) nice: i32,
    pub(crate) priority: u32,
    pub(crate) runtime: u64,
    pub(crate) deadline: u64,
    pub(crate) period: u64,
}

/// Sets the scheduling of this thread.
pub(crate) fn set_scheduler(attr: &SchedAttr) -> Result<()> {
    // SAFETY: the structure contains its size, and lives across the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attr), 0) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Sets the I/O priority of this thread, see `ioprio_set(2)`.
pub(crate) fn set_io_priority(value: i32) -> Result<()> {
    const IOPRIO_WHO_PROCESS: i32 = 1;
    // SAFETY: no memory is passed.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Sets the memory policy of this thread: the mode with its flags, and the nodes as bits.
pub(crate) fn set_memory_policy(mode: i32, nodes: &[u64]) -> Result<()> {
    let bits = nodes.len() * 64 + 1;
    let pointer = if nodes.is_empty() {
        std::ptr::null()
    } else {
        nodes.as_ptr()
    };
    // SAFETY: the kernel reads one bit less than it is told, which is what is there.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, pointer, bits) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Removes a capability from the bounding set.
pub(crate) fn drop_from_bounding(capability: u32) -> Result<()> {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(last()) }
}

/// Sets the owner of files that this thread creates while this lives, without losing capabilities.
#[derive(Debug)]
pub(crate) struct FileMaker {
    before: (u32, u32),
    rights: CapabilitySets,
}

impl FileMaker {
    /// Changes the file system user and group of this thread.
    pub(crate) fn be(uid: u32, gid: u32) -> Result<Self> {
        let rights = capabilities(None)?;
        let before = change(uid, gid);
        let made = Self { before, rights };
        // The kernel drops file capabilities when the file system user is not root.
        set_capabilities(None, made.rights)?;
        Ok(made)
    }
}

impl Drop for FileMaker {
    fn drop(&mut self) {
        change(self.before.0, self.before.1);
        let _ = set_capabilities(None, self.rights);
    }
}

/// Sets the IDs and returns the previous ones.
fn change(uid: u32, gid: u32) -> (u32, u32) {
    // SAFETY: no memory is passed; both answer with what was before, and change what this thread makes alone.
    let (gid, uid) = unsafe { (libc::setfsgid(gid), libc::setfsuid(uid)) };
    (uid as u32, gid as u32)
}
