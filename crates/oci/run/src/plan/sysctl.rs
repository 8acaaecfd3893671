//! Kernel parameters of a container's namespaces.

use std::ffi::CString;

use orlop_oci_types::{Linux, NamespaceKind};

use super::namespaces::Namespaces;
use super::text::c_string;
use crate::error::{Error, Result};

/// Parameters of an IPC namespace.
const OF_IPC: [&str; 9] = [
    "kernel/msgmax",
    "kernel/msgmnb",
    "kernel/msgmni",
    "kernel/sem",
    "kernel/shmall",
    "kernel/shmmax",
    "kernel/shmmni",
    "kernel/shm_rmid_forced",
    "fs/mqueue",
];

/// A parameter: its file below `/proc/sys`, and the value to write.
#[derive(Debug)]
pub(crate) struct Sysctl {
    pub(crate) file: CString,
    pub(crate) value: CString,
}

/// Converts the parameters; each must belong to a namespace that is not the host's.
pub(crate) fn sysctls(linux: &Linux, namespaces: &Namespaces) -> Result<Vec<Sysctl>> {
    let one = |(name, value): (&String, &String)| {
        let told = format!("linux.sysctl[{name:?}]");
        let file =
            file(name).ok_or_else(|| Error::new(format!("{told}: not a valid sysctl name")))?;
        let refused = |why: &str| Err(Error::new(format!("{told}: sysctl {name:?} {why}")));
        let of_ipc = OF_IPC
            .iter()
            .any(|own| file == *own || (*own == "fs/mqueue" && file.starts_with("fs/mqueue/")));
        if file == "kernel/hostname" {
            return refused("is not allowed as it conflicts with the OCI hostname field");
        } else if of_ipc && !namespaces.is_apart(NamespaceKind::Ipc) {
            return refused("is not allowed in the hosts ipc namespace");
        } else if file == "kernel/domainname" {
            if !namespaces.is_apart(NamespaceKind::Uts) {
                return refused("is not allowed in the hosts uts namespace");
            }
        } else if file.starts_with("net/") {
            if !namespaces.is_apart(NamespaceKind::Network) {
                return refused("not allowed in host network namespace");
            }
        } else if file.starts_with("user/") {
            if !namespaces.has_users() {
                return refused("is not in a separate user namespace");
            }
        } else if !of_ipc {
            return refused("is not in a separate kernel namespace");
        }
        Ok(Sysctl {
            file: c_string(format!("sys/{file}"), &told)?,
            value: c_string(value.as_str(), &told)?,
        })
    };
    linux.sysctl.iter().map(one).collect()
}

/// Returns the file of a parameter, written with dots or slashes. The first one found is the separator; the other is a
/// plain character (`sysctl.d(5)`).
fn file(name: &str) -> Option<String> {
    let first = name.find(['.', '/']).map(|at| name.as_bytes()[at]);
    let swapped: String = match first {
        Some(b'.') => name
            .chars()
            .map(|it| match it {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    };
    let plain = swapped
        .split('/')
        .all(|part| !part.is_empty() && part != "." && part != "..");
    plain.then_some(swapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_name_one_file() {
        for (name, path) in [
            ("net.ipv4.ip_forward", Some("net/ipv4/ip_forward")),
            (
                "net/ipv4/conf/eth0.1/arp_filter",
                Some("net/ipv4/conf/eth0.1/arp_filter"),
            ),
            (
                "net.ipv4.conf.eth0/1.arp_filter",
                Some("net/ipv4/conf/eth0.1/arp_filter"),
            ),
            ("net//x", None),
            ("net/../kernel/core_pattern", None),
        ] {
            assert_eq!(file(name).as_deref(), path, "{name}");
        }
    }
}
