//! Names of capabilities.

use orlop_oci::Capabilities;

use crate::sys::CapSets;

/// As `linux/capability.h` numbers them.
pub(crate) const NAMES: [&str; 41] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

/// Sets as bits. What this machine does not know, or this process may not pass on, is left out and
/// named in `passed_over`, as runc does.
pub(crate) fn sets(wanted: &Capabilities, last: u32, passed_over: &mut Vec<String>) -> CapSets {
    let mut bits = |names: &'_ [String]| -> u64 {
        let mut set = 0;
        for name in names {
            match NAMES.iter().position(|known| known == name) {
                Some(number) if number as u32 <= last => set |= 1 << number,
                _ => passed_over.push(name.clone()),
            }
        }
        set
    };
    let sets = CapSets {
        bounding: bits(&wanted.bounding),
        effective: bits(&wanted.effective),
        inheritable: bits(&wanted.inheritable),
        permitted: bits(&wanted.permitted),
        ambient: bits(&wanted.ambient),
    };
    passed_over.sort();
    passed_over.dedup();
    sets
}

/// Takes from the ambient set what is not both permitted and inheritable, and names it.
pub(crate) fn leave_ambient_out(sets: &mut CapSets) -> Vec<&'static str> {
    let impossible = sets.ambient & !(sets.permitted & sets.inheritable);
    sets.ambient &= !impossible;
    let named = NAMES.iter().enumerate();
    named
        .filter(|(number, _)| impossible & (1 << number) != 0)
        .map(|(_, name)| *name)
        .collect()
}
