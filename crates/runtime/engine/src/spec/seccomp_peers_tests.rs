//! Differences of the default seccomp profile from those of other runtimes, with reasons.
//!
//! A profile is a set of entries:
//!
//! - `allow NAME`, `cap CAPABILITY NAME`, `arch ARCHITECTURE NAME`, as in `seccomp_default.txt`;
//! - `if NAME CONDITION` for a rule on arguments: `&MASK==VALUE` on the first one unless its index precedes
//!   it, `with` or `without` a capability;
//! - `errno ERROR NAME` for an error that is not EPERM, and `default errno ERROR`;
//! - `runs NATIVE` and `runs NATIVE-OTHER` for the architectures that are filtered on a native one.
//!
//! A peer is stored as its differences from orlop. The number of its entries and the FNV-1a hash of them, sorted and
//! each with a line feed, prove that the differences are all there are.

use std::collections::BTreeSet;

use orlop_oci_types::{SeccompAction, SeccompOperator, SeccompRule};

use super::seccomp_default::{architectures, profile};
use Only::{Orlop, Peer as Theirs};

struct Peer {
    name: &'static str,
    entries: usize,
    hash: u64,
    differences: &'static [Difference],
}

/// Entries that only one of the two profiles has: prefix, endings, and the reason.
type Difference = (Only, &'static str, &'static str, &'static str);

enum Only {
    Orlop,
    Peer,
}

const SOCKET_THEIRS: Difference = (
    Theirs,
    "if socket",
    "<0x26 ==0x27 >0x28",
    "compared with all 64 bits, so that a denied family passes with a bit that the kernel ignores",
);
const SOCKET_OURS: Difference = (
    Orlop,
    "if socket",
    "&0xffffffe0==0x0 &0xfffffffc==0x20 &0xfffffffe==0x24 &0xffffffff==0x27 &0xffffffff==0x29 \
     &0xfffffffe==0x2a &0xfffffffc==0x2c &0xfffffff0==0x30",
    "all families but AF_ALG and AF_VSOCK, by the bits that the kernel looks at",
);
const S390: Difference = (
    Theirs,
    "arch s390",
    "s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr",
    "orlop is not built for 31-bit s390",
);
const X86: Difference = (
    Theirs,
    "arch x86",
    "modify_ldt",
    "orlop is not built for 32-bit x86",
);
const X32: Difference = (
    Theirs,
    "arch x32",
    "arch_prctl modify_ldt",
    "orlop is not built for x32",
);
const MIPS: Difference = (
    Theirs,
    "runs",
    "MIPS64 MIPS64-MIPS MIPS64-MIPS64N32 MIPS64N32 MIPS64N32-MIPS MIPS64N32-MIPS64 MIPSEL64 \
     MIPSEL64-MIPSEL MIPSEL64-MIPSEL64N32 MIPSEL64N32 MIPSEL64N32-MIPSEL MIPSEL64N32-MIPSEL64",
    "orlop is not built for MIPS",
);
const PTRACE: Difference = (
    Theirs,
    "cap CAP_SYS_PTRACE",
    "process_vm_readv process_vm_writev ptrace",
    "needless since Linux 4.8, from which on both allow them always",
);

const PEERS: [Peer; 3] = [
    // github.com/moby/profiles, cd3bed80 of 2026-06-30 (seccomp v0.2.3, Docker 29).
    Peer {
        name: "moby",
        entries: 475,
        hash: 0xaa87_fcf3_10eb_7185,
        differences: &[
            SOCKET_THEIRS,
            SOCKET_OURS,
            S390,
            X86,
            X32,
            MIPS,
            PTRACE,
            (
                Theirs,
                "allow",
                "riscv_hwprobe",
                "no difference: only RISC-V has the call",
            ),
            (Orlop, "arch riscv64", "riscv_hwprobe", "as above"),
            (
                Theirs,
                "cap CAP_SYS_ADMIN",
                "lsm_get_self_attr lsm_list_modules lsm_set_self_attr",
                "allowed always here",
            ),
            (
                Orlop,
                "allow",
                "lsm_get_self_attr lsm_list_modules lsm_set_self_attr",
                "as containerd: a process reads and changes its own attributes, as in /proc/self/attr",
            ),
        ],
    },
    // github.com/containerd/containerd, 301026e5 of 2026-08-22.
    Peer {
        name: "containerd",
        entries: 473,
        hash: 0xe812_3984_49c0_b99f,
        differences: &[SOCKET_THEIRS, SOCKET_OURS, S390, X86, MIPS, PTRACE],
    },
    // github.com/containers/container-libs, f0ddf1a7 of 2026-04-01: CRI-O and Podman.
    Peer {
        name: "CRI-O",
        entries: 456,
        hash: 0x199f_0d25_979b_eadf,
        differences: &[
            S390,
            X86,
            X32,
            MIPS,
            (
                Theirs,
                "if socket !=0x28 with",
                "CAP_AUDIT_WRITE",
                "AF_ALG is denied here, as by moby and containerd",
            ),
            (
                Theirs,
                "if socket !=0x10 without",
                "CAP_AUDIT_WRITE",
                "as above",
            ),
            (
                Theirs,
                "if socket ==0x10 2:!=0x9 without",
                "CAP_AUDIT_WRITE",
                "netlink is allowed whole here, as by moby and containerd",
            ),
            (
                Theirs,
                "errno 22 if socket ==0x10 2:==0x9 without",
                "CAP_AUDIT_WRITE",
                "the kernel checks the capability when a message is sent",
            ),
            (
                Theirs,
                "errno 1 if socket",
                "==0x28",
                "no rule allows the family here",
            ),
            SOCKET_OURS,
            (
                Theirs,
                "default errno",
                "38",
                "EPERM as by moby and containerd; calls later than all of the list are ENOSYS everywhere",
            ),
            (Orlop, "default errno", "1", "as above"),
            (
                Theirs,
                "allow",
                "clone clone3 setns unshare",
                "user namespaces give a container the kernel's code for mounts and networks to attack; moby and \
                 containerd ask for CAP_SYS_ADMIN",
            ),
            (
                Orlop,
                "if clone",
                "&0x7e020000==0x0",
                "clone without new namespaces",
            ),
            (
                Orlop,
                "errno 38",
                "clone3",
                "flags in memory cannot be seen; C libraries fall back to clone",
            ),
            (
                Theirs,
                "allow",
                "fanotify_init fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree pivot_root \
                 umount umount2",
                "of use only in a user namespace or with CAP_SYS_ADMIN; moby and containerd ask for the latter, and \
                 allow pivot_root never",
            ),
            (
                Orlop,
                "cap CAP_SYS_ADMIN",
                "clone clone3 fanotify_init fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree \
                 syslog umount umount2 unshare",
                "allowed always there",
            ),
            (
                Theirs,
                "allow",
                "get_mempolicy mbind set_mempolicy",
                "they place a container's memory on NUMA nodes at the expense of others: CAP_SYS_NICE as by moby and \
                 containerd",
            ),
            (
                Orlop,
                "cap CAP_SYS_NICE",
                "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
                "as above",
            ),
            (
                Theirs,
                "allow",
                "keyctl",
                "keyrings belong to a user of the node and not to a container",
            ),
            (
                Theirs,
                "allow",
                "pidfd_getfd",
                "it takes descriptors out of other processes: CAP_SYS_PTRACE as by moby and containerd",
            ),
            (Orlop, "cap CAP_SYS_PTRACE", "pidfd_getfd", "as above"),
            (
                Theirs,
                "allow",
                "reboot syslog",
                "the kernel asks for a capability, too; moby and containerd have it in the profile",
            ),
            (Orlop, "cap CAP_SYS_BOOT", "reboot", "as above"),
            (Orlop, "cap CAP_SYSLOG", "syslog", "as above"),
            (
                Theirs,
                "allow",
                "signal",
                "for 32-bit programs; their C libraries call rt_sigaction",
            ),
            (
                Theirs,
                "cap CAP_SYS_MODULE",
                "query_module",
                "Linux has had no such call since 2.6",
            ),
            (
                Orlop,
                "allow",
                "cachestat getxattrat io_pgetevents io_pgetevents_time64 listmount listxattrat lsm_get_self_attr \
                 lsm_list_modules lsm_set_self_attr map_shadow_stack mseal removexattrat setxattrat statmount \
                 uretprobe vmsplice",
                "as containerd; the kernel lets a process use them on what is its own",
            ),
            (Orlop, "arch riscv64", "riscv_hwprobe", "as containerd"),
            (
                Orlop,
                "runs",
                "LOONGARCH64 RISCV64",
                "no difference: the native architecture is always filtered",
            ),
        ],
    },
];

#[test]
fn the_profile_differs_from_those_of_other_runtimes_in_what_the_table_says() {
    for peer in &PEERS {
        let theirs = entries_of(peer);
        let found = (theirs.len(), hash(&theirs));
        assert_eq!(found, (peer.entries, peer.hash), "{}", peer.name);
    }
}

#[test]
fn what_containerd_and_crio_both_allow_is_allowed() {
    let [_, containerd, crio] = PEERS.each_ref().map(entries_of);
    let ours = entries();
    let missing: Vec<_> = (containerd.intersection(&crio))
        .filter(|entry| entry.starts_with("allow ") || entry.starts_with("cap "))
        .filter(|entry| !ours.contains(*entry))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Returns the entries of a peer, from orlop's and the differences.
fn entries_of(peer: &Peer) -> BTreeSet<String> {
    let mut theirs = entries();
    for (only, kind, names, why) in peer.differences {
        for name in names.split_whitespace() {
            let entry = format!("{kind} {name}");
            let differs = match only {
                Only::Peer => theirs.insert(entry.clone()),
                Only::Orlop => theirs.remove(&entry),
            };
            assert!(differs, "{}: {entry} is no difference ({why})", peer.name);
        }
    }
    theirs
}

/// Returns the entries of orlop's profile.
fn entries() -> BTreeSet<String> {
    let mut entries = BTreeSet::new();
    for line in include_str!("seccomp_default.txt").lines() {
        let mut words = line.split_whitespace();
        let kind = match words.next() {
            Some("allow") => "allow".to_owned(),
            Some(kind @ ("cap" | "arch")) => format!("{kind} {}", words.next().unwrap()),
            _ => continue,
        };
        entries.extend(words.map(|name| format!("{kind} {name}")));
    }
    let profile = profile(&[], false);
    assert_eq!(profile.default_errno_ret, None);
    entries.insert("default errno 1".to_owned());
    for rule in &profile.syscalls {
        if let Some(condition) = condition(rule) {
            entries.extend(
                rule.names
                    .iter()
                    .map(|name| condition.replace("NAME", name)),
            );
        }
    }
    for native in ["x86_64", "aarch64", "s390x", "riscv64", "loongarch64"] {
        let native = native.to_uppercase();
        for other in architectures(&native.to_lowercase()) {
            let other = other.strip_prefix("SCMP_ARCH_").unwrap();
            entries.insert(if other == native {
                format!("runs {native}")
            } else {
                format!("runs {native}-{other}")
            });
        }
    }
    entries
}

/// Returns the conditions of a rule, besides that the calls are allowed.
fn condition(rule: &SeccompRule) -> Option<String> {
    if rule.action == SeccompAction::Errno {
        return Some(format!("errno {} NAME", rule.errno_ret.unwrap()));
    }
    let [arg] = rule.args.as_slice() else {
        assert!(rule.args.is_empty());
        return None;
    };
    Some(match arg.op {
        SeccompOperator::Equal => format!("if NAME =={:#x}", arg.value),
        SeccompOperator::MaskedEqual => {
            format!("if NAME &{:#x}=={:#x}", arg.value, arg.value_two)
        }
        _ => panic!("{rule:?}"),
    })
}

fn hash(entries: &BTreeSet<String>) -> u64 {
    let bytes = entries
        .iter()
        .flat_map(|entry| entry.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
