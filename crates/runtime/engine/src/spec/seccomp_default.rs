//! The default seccomp filter, made from the list in `seccomp_default.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use orlop_oci_types::{Profile, Seccomp, SeccompAction, SeccompArg, SeccompOperator, SeccompRule};
use parking_lot::Mutex;

/// The address families that `socket` may create (`linux/socket.h`): all up to 63 except two. `AF_ALG`
/// (38), the kernel's ciphers, is a source of escapes; `AF_VSOCK` (40) bypasses network namespaces to
/// reach the hypervisor. Each pair is a mask and the masked value of the family.
///
/// The masks have 32 bits because the kernel ignores the others: compared in full, `1 << 32 | AF_ALG` is a
/// family above 40. Each rule has one condition, because runtimes treat several conditions on one argument
/// as alternatives.
const FAMILIES: [(u64, u64); 8] = [
    (0xffff_ffe0, 0),
    (0xffff_fffc, 32),
    (0xffff_fffe, 36),
    (0xffff_ffff, 39),
    (0xffff_ffff, 41),
    (0xffff_fffe, 42),
    (0xffff_fffc, 44),
    (0xffff_fff0, 48),
];

/// Flags of `clone` that make namespaces, except the time namespace's, which shares its bit with the exit
/// signal (`linux/sched.h`).
const CLONE_NEW: u64 = 0x7e02_0000;

/// Harmless values of `personality`: `PER_LINUX`, `PER_LINUX32`, each with `UNAME26`, and the query.
const PERSONALITIES: [u64; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

const ENOSYS: u32 = 38;

/// Limit of cached profiles: nodes use two or three, and a client might ask for any set of capabilities.
const MOST_KEPT: usize = 16;

/// Cached profiles by the relevant capabilities and whether `socketcall` is denied.
static KEPT: Mutex<BTreeMap<Vec<bool>, Profile>> = Mutex::new(BTreeMap::new());

/// Returns the profile of a container with these capabilities in its bounding set, as JSON.
pub(super) fn document(bounding: &[String], deny_socketcall: bool) -> serde_json::Result<Profile> {
    let named = LIST.with_capability.iter().map(|(name, _)| *name);
    let key: Vec<bool> = named
        .chain(["CAP_SYS_ADMIN"])
        .map(|name| bounding.iter().any(|own| own == name))
        .chain([deny_socketcall])
        .collect();
    if let Some(kept) = KEPT.lock().get(&key) {
        return Ok(kept.clone());
    }
    let made = Profile::new(&profile(bounding, deny_socketcall))?;
    let mut kept = KEPT.lock();
    if kept.len() < MOST_KEPT {
        kept.insert(key, made.clone());
    }
    Ok(made)
}

pub(super) fn profile(bounding: &[String], deny_socketcall: bool) -> Seccomp {
    let has = |capability: &str| bounding.iter().any(|own| own == capability);
    let mut names = LIST.always.clone();
    for (capability, more) in &LIST.with_capability {
        if has(capability) {
            names.extend(more.iter().map(|name| (*name).to_owned()));
        }
    }
    names.sort_unstable();
    names.dedup();

    let mut syscalls = Vec::new();
    if deny_socketcall {
        names.retain(|name| name != "socketcall");
        // A rule on `socket` makes libseccomp also allow that part of `socketcall`, unless a rule denies that
        // call. Its error must differ from the default one: runc drops rules with the default.
        syscalls.push(missing("socketcall"));
    }
    syscalls.push(rule(names, SeccompAction::Allow));
    syscalls.extend(FAMILIES.map(|(mask, family)| allow_masked("socket", 0, mask, family)));
    syscalls.extend(PERSONALITIES.map(|value| allow_equal("personality", value)));
    if !has("CAP_SYS_ADMIN") {
        // s390 swaps the first two arguments of clone.
        let flags = u32::from(cfg!(target_arch = "s390x"));
        syscalls.push(allow_masked("clone", flags, CLONE_NEW, 0));
        // The flags of clone3 are in memory, which a filter cannot read. With ENOSYS, C libraries fall back to clone.
        syscalls.push(missing("clone3"));
    }
    Seccomp {
        default_action: SeccompAction::Errno,
        default_errno_ret: None,
        architectures: architectures(std::env::consts::ARCH)
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        flags: None,
        listener_path: String::new(),
        listener_metadata: String::new(),
        syscalls,
    }
}

fn allow_equal(name: &str, value: u64) -> SeccompRule {
    allow_if(name, 0, value, 0, SeccompOperator::Equal)
}

fn allow_masked(name: &str, index: u32, mask: u64, value: u64) -> SeccompRule {
    allow_if(name, index, mask, value, SeccompOperator::MaskedEqual)
}

fn allow_if(
    name: &str,
    index: u32,
    value: u64,
    value_two: u64,
    op: SeccompOperator,
) -> SeccompRule {
    SeccompRule {
        args: vec![SeccompArg {
            index,
            value,
            value_two,
            op,
        }],
        ..rule(vec![name.to_owned()], SeccompAction::Allow)
    }
}

fn missing(name: &str) -> SeccompRule {
    SeccompRule {
        errno_ret: Some(ENOSYS),
        ..rule(vec![name.to_owned()], SeccompAction::Errno)
    }
}

fn rule(names: Vec<String>, action: SeccompAction) -> SeccompRule {
    SeccompRule {
        names,
        action,
        errno_ret: None,
        args: Vec::new(),
    }
}

/// Returns the architectures whose programs run on a native one.
pub(super) fn architectures(native: &str) -> &'static [&'static str] {
    match native {
        "x86_64" => &["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
        "aarch64" => &["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
        "s390x" => &["SCMP_ARCH_S390X", "SCMP_ARCH_S390"],
        "riscv64" => &["SCMP_ARCH_RISCV64"],
        "loongarch64" => &["SCMP_ARCH_LOONGARCH64"],
        // The runtime filters its own architecture.
        _ => &[],
    }
}

struct List {
    always: Vec<String>,
    with_capability: Vec<(&'static str, Vec<&'static str>)>,
}

static LIST: LazyLock<List> = LazyLock::new(|| read(include_str!("seccomp_default.txt")));

/// Reads the list; lines of an unknown form are ignored, which a test rules out.
fn read(text: &'static str) -> List {
    let mut list = List {
        always: Vec::new(),
        with_capability: Vec::new(),
    };
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("allow") => list.always.extend(words.map(str::to_owned)),
            Some("arch") if words.next() == Some(std::env::consts::ARCH) => {
                list.always.extend(words.map(str::to_owned));
            }
            Some("cap") => {
                if let Some(capability) = words.next() {
                    list.with_capability.push((capability, words.collect()));
                }
            }
            _ => {}
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::super::capabilities;
    use super::*;

    fn allowed(profile: &Seccomp, name: &str) -> bool {
        profile.syscalls.iter().any(|rule| {
            rule.action == SeccompAction::Allow
                && rule.args.is_empty()
                && rule.names.iter().any(|own| own == name)
        })
    }

    #[test]
    fn every_line_of_the_list_says_something() {
        for line in include_str!("seccomp_default.txt").lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] | ["allow", _, ..] | ["arch", _, _, ..] => {}
                [first, ..] if first.starts_with('#') => {}
                ["cap", capability, _, ..] => {
                    assert!(capabilities::ALL.contains(capability), "{line}");
                }
                _ => panic!("{line}"),
            }
        }
    }

    #[test]
    fn dangerous_calls_need_their_capability() {
        let plain = profile(&["CAP_CHOWN".to_owned()], false);
        assert!(allowed(&plain, "openat"));
        for name in [
            "mount",
            "bpf",
            "setns",
            "unshare",
            "clone",
            "clone3",
            "keyctl",
            "add_key",
            "init_module",
            "kexec_load",
            "userfaultfd",
            "io_uring_setup",
            "socket",
            "personality",
        ] {
            assert!(!allowed(&plain, name), "{name}");
        }
        let admin = profile(&["CAP_SYS_ADMIN".to_owned()], false);
        assert!(allowed(&admin, "mount") && allowed(&admin, "clone3"));
        assert!(!allowed(&admin, "init_module"));
    }

    #[test]
    fn a_document_is_that_of_its_capabilities_however_many_are_asked_for() {
        let names = LIST
            .with_capability
            .iter()
            .map(|(name, _)| (*name).to_owned());
        let names: Vec<String> = names.collect();
        let one = names.iter().map(|name| vec![name.clone()]);
        let sets: Vec<Vec<String>> = one
            .chain((0..names.len()).map(|n| names[..n].to_vec()))
            .collect();
        assert!(sets.len() > MOST_KEPT);
        for bounding in sets.iter().chain(sets.iter().rev()) {
            let document = document(bounding, false).unwrap();
            assert_eq!(
                document.understood().unwrap(),
                profile(bounding, false),
                "{bounding:?}"
            );
        }
        assert!(KEPT.lock().len() <= MOST_KEPT);
    }

    #[test]
    fn crypto_and_hypervisor_sockets_match_no_rule() {
        let passes = |family: u64| FAMILIES.iter().any(|(mask, is)| family & mask == *is);
        for family in 0..64 {
            let expected = ![38, 40].contains(&family);
            assert_eq!(passes(family), expected, "family {family}");
            // The kernel ignores the upper bits.
            assert_eq!(passes(1 << 32 | family), expected, "family {family}");
        }
    }

    #[test]
    fn socketcall_is_missing_only_where_it_is_denied() {
        assert!(allowed(&profile(&[], false), "socketcall"));
        let denied = profile(&[], true);
        assert!(!allowed(&denied, "socketcall"));
        assert_eq!(denied.syscalls[0], missing("socketcall"));
        assert_ne!(
            document(&[], true).unwrap(),
            document(&[], false).unwrap(),
            "each has a document of its own"
        );
    }

    #[test]
    fn clone3_is_told_to_be_missing() {
        let rules = profile(&[], false).syscalls;
        let clone3 = rules.iter().find(|rule| rule.names == ["clone3"]).unwrap();
        assert_eq!(
            (clone3.action, clone3.errno_ret),
            (SeccompAction::Errno, Some(ENOSYS))
        );
    }
}
