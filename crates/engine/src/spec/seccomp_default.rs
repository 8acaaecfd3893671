//! The default system call filter, made from the list in `seccomp_default.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use orlop_oci::{Profile, Seccomp, SeccompAction, SeccompArg, SeccompOperator, SeccompRule};
use parking_lot::Mutex;

/// `AF_ALG` and `AF_VSOCK` (`linux/socket.h`): the kernel's crypto sockets, a source of escapes,
/// and the way past network namespaces to the hypervisor.
const AF_ALG: u64 = 38;
const AF_VSOCK: u64 = 40;

/// Flags of `clone` that make namespaces, save for the time namespace's, which shares its bit
/// with the exit signal (`linux/sched.h`).
const CLONE_NEW: u64 = 0x7e02_0000;

/// Values of `personality` which change nothing dangerous: `PER_LINUX`, `PER_LINUX32`, each with
/// `UNAME26`, and the query.
const PERSONALITIES: [u64; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

const ENOSYS: u32 = 38;

/// How many documents are kept: nodes use two or three, and a client might ask for any set of capabilities.
const MOST_KEPT: usize = 16;

/// By the capabilities that make a difference.
static KEPT: Mutex<BTreeMap<Vec<bool>, Profile>> = Mutex::new(BTreeMap::new());

/// The profile of a container with these capabilities in its bounding set, as a document.
pub(super) fn document(bounding: &[String]) -> serde_json::Result<Profile> {
    let named = LIST.with_capability.iter().map(|(name, _)| *name);
    let key: Vec<bool> = named
        .chain(["CAP_SYS_ADMIN"])
        .map(|name| bounding.iter().any(|own| own == name))
        .collect();
    if let Some(kept) = KEPT.lock().get(&key) {
        return Ok(kept.clone());
    }
    let made = Profile::new(&profile(bounding))?;
    let mut kept = KEPT.lock();
    if kept.len() < MOST_KEPT {
        kept.insert(key, made.clone());
    }
    Ok(made)
}

fn profile(bounding: &[String]) -> Seccomp {
    let has = |capability: &str| bounding.iter().any(|own| own == capability);
    let mut names = LIST.always.clone();
    for (capability, more) in &LIST.with_capability {
        if has(capability) {
            names.extend(more.iter().map(|name| (*name).to_owned()));
        }
    }
    names.sort_unstable();
    names.dedup();

    let mut syscalls = vec![rule(names, SeccompAction::Allow)];
    syscalls.extend(sockets());
    syscalls.extend(
        PERSONALITIES.map(|value| allow_if("personality", 0, value, SeccompOperator::Equal)),
    );
    if !has("CAP_SYS_ADMIN") {
        // s390 has the arguments of clone the other way round.
        let flags = u32::from(cfg!(target_arch = "s390x"));
        syscalls.push(allow_if(
            "clone",
            flags,
            CLONE_NEW,
            SeccompOperator::MaskedEqual,
        ));
        // Its flags lie in memory, out of a filter's sight; told that it is missing, C libraries
        // fall back to clone.
        syscalls.push(SeccompRule {
            errno_ret: Some(ENOSYS),
            ..rule(vec!["clone3".to_owned()], SeccompAction::Errno)
        });
    }
    Seccomp {
        default_action: SeccompAction::Errno,
        default_errno_ret: None,
        architectures: ARCHITECTURES
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        flags: None,
        listener_path: String::new(),
        listener_metadata: String::new(),
        syscalls,
    }
}

/// Every family but two. Ranges instead of two "not equal" conditions: runtimes take conditions
/// on the same argument one by one, as alternatives, and each would let the other's family pass.
fn sockets() -> [SeccompRule; 3] {
    [
        allow_if("socket", 0, AF_ALG, SeccompOperator::Less),
        allow_if("socket", 0, AF_ALG + 1, SeccompOperator::Equal),
        allow_if("socket", 0, AF_VSOCK, SeccompOperator::Greater),
    ]
}

fn allow_if(name: &str, index: u32, value: u64, op: SeccompOperator) -> SeccompRule {
    SeccompRule {
        args: vec![SeccompArg {
            index,
            value,
            value_two: 0,
            op,
        }],
        ..rule(vec![name.to_owned()], SeccompAction::Allow)
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

/// The architectures whose programs run on this one.
const ARCHITECTURES: &[&str] = if cfg!(target_arch = "x86_64") {
    &["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
} else if cfg!(target_arch = "aarch64") {
    &["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"]
} else if cfg!(target_arch = "s390x") {
    &["SCMP_ARCH_S390X", "SCMP_ARCH_S390"]
} else if cfg!(target_arch = "riscv64") {
    &["SCMP_ARCH_RISCV64"]
} else if cfg!(target_arch = "loongarch64") {
    &["SCMP_ARCH_LOONGARCH64"]
} else {
    // The runtime filters its own.
    &[]
};

struct List {
    always: Vec<String>,
    with_capability: Vec<(&'static str, Vec<&'static str>)>,
}

static LIST: LazyLock<List> = LazyLock::new(|| read(include_str!("seccomp_default.txt")));

/// Reads the list; a line of an unknown form is passed over, which a test rules out.
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
        let plain = profile(&["CAP_CHOWN".to_owned()]);
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
        let admin = profile(&["CAP_SYS_ADMIN".to_owned()]);
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
            let document = document(bounding).unwrap();
            assert_eq!(
                document.understood().unwrap(),
                profile(bounding),
                "{bounding:?}"
            );
        }
        assert!(KEPT.lock().len() <= MOST_KEPT);
    }

    #[test]
    fn crypto_and_hypervisor_sockets_match_no_rule() {
        let passes = |family: u64| {
            sockets().iter().any(|rule| {
                let arg = &rule.args[0];
                match arg.op {
                    SeccompOperator::Less => family < arg.value,
                    SeccompOperator::Equal => family == arg.value,
                    SeccompOperator::Greater => family > arg.value,
                    _ => unreachable!(),
                }
            })
        };
        for (family, expected) in [
            (1, true),
            (2, true),
            (10, true),
            (16, true),
            (38, false),
            (39, true),
            (40, false),
            (41, true),
        ] {
            assert_eq!(passes(family), expected, "family {family}");
        }
    }

    #[test]
    fn clone3_is_told_to_be_missing() {
        let rules = profile(&[]).syscalls;
        let clone3 = rules.iter().find(|rule| rule.names == ["clone3"]).unwrap();
        assert_eq!(
            (clone3.action, clone3.errno_ret),
            (SeccompAction::Errno, Some(ENOSYS))
        );
    }
}
