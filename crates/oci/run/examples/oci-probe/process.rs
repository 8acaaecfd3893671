//! What the kernel says of the process itself.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The kernel's numbers (`asm-generic/fcntl.h`); libc calls the first 0 where nothing else exists.
const O_LARGEFILE: u32 = 0o100_000;
const O_CLOEXEC: u32 = 0o2_000_000;

/// What it can read and write already: kinds and modes by number.
pub(crate) fn descriptors() -> Value {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Value::Null;
    };
    let mut found = BTreeMap::new();
    for entry in entries.flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else {
            continue;
        };
        let target = target.to_string_lossy().into_owned();
        // The one by which the directory is read.
        if target.starts_with("/proc/") && target.ends_with("/fd") {
            continue;
        }
        let kind = target.split(":[").next().unwrap_or_default().to_owned();
        let number = entry.file_name().to_string_lossy().into_owned();
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"));
        let info = info.unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = u32::from_str_radix(flags.unwrap_or_default().trim(), 8).unwrap_or_default();
        // Whether it was opened for large files or to be closed means nothing any more.
        let flags = flags & !(O_LARGEFILE | O_CLOEXEC);
        found.insert(number, format!("{kind} {flags:o}"));
    }
    json!(found)
}

/// Its environment by name; what has none is kept as it is.
pub(crate) fn environment() -> Value {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        let value = value.to_string_lossy().into_owned();
        found
            .entry(name.to_string_lossy().into_owned())
            .or_default()
            .push(value);
    }
    json!(found)
}

pub(crate) fn directory() -> Value {
    match std::env::current_dir() {
        Ok(directory) => json!(directory),
        Err(error) => json!(error.to_string()),
    }
}

/// The lines of `/proc/self/status` that a runtime decides.
pub(crate) fn status() -> Value {
    const DECIDED: [&str; 22] = [
        "Name",
        "Umask",
        "NSpid",
        "TracerPid",
        "Uid",
        "Gid",
        "Groups",
        "NStgid",
        "Threads",
        "SigBlk",
        "SigIgn",
        "SigPnd",
        "ShdPnd",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "NoNewPrivs",
        "Seccomp",
        "Seccomp_filters",
        "THP_enabled",
    ];
    const PLACES: [&str; 2] = ["Cpus_allowed_list", "Mems_allowed_list"];
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let of_interest = lines.filter(|(name, _)| DECIDED.contains(name) || PLACES.contains(name));
    let found: BTreeMap<&str, &str> = of_interest
        .map(|(name, value)| (name, value.trim()))
        .collect();
    json!(found)
}

/// The fields of `/proc/self/stat` that a runtime decides, by their names in proc(5).
pub(crate) fn stat() -> Value {
    const FIELDS: [(usize, &str); 9] = [
        (1, "ppid"),
        (2, "pgrp"),
        (3, "session"),
        (4, "tty_nr"),
        (5, "tpgid"),
        (15, "priority"),
        (16, "nice"),
        (37, "rt_priority"),
        (38, "policy"),
    ];
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text
        .rsplit(") ")
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    let found: BTreeMap<&str, &str> = FIELDS
        .iter()
        .filter_map(|&(at, name)| Some((name, *fields.get(at)?)))
        .collect();
    json!(found)
}

/// Soft and hard limits by name.
pub(crate) fn limits() -> Value {
    let text = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let found: BTreeMap<&str, String> = text
        .lines()
        .skip(1)
        .filter_map(|line| {
            let (name, values) = line.split_at_checked(26)?;
            let values: Vec<&str> = values.split_whitespace().take(2).collect();
            Some((name.trim(), values.join(" ")))
        })
        .collect();
    json!(found)
}

/// The identities of its namespaces, and of those that its children get.
pub(crate) fn namespaces() -> Value {
    let Ok(entries) = std::fs::read_dir("/proc/self/ns") else {
        return Value::Null;
    };
    let found: BTreeMap<String, String> = entries
        .flatten()
        .filter_map(|entry| {
            let target = std::fs::read_link(entry.path()).ok()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((name, target.to_string_lossy().into_owned()))
        })
        .collect();
    json!(found)
}

/// Who the machine is said to be.
pub(crate) fn names() -> Value {
    let names = rustix::system::uname();
    json!({
        "host": names.nodename().to_string_lossy(),
        "domain": names.domainname().to_string_lossy(),
        "machine": names.machine().to_string_lossy(),
    })
}

/// The class and the level of its reading and writing (ioprio_get(2)).
#[allow(unsafe_code, reason = "neither std nor rustix has the call")]
pub(crate) fn io_priority() -> Value {
    const WHO_PROCESS: i32 = 1;
    // SAFETY: the call takes numbers alone and touches no memory of ours.
    let answer = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
    json!(answer)
}

/// The keyring of its session by name (keyctl(2)): without one of its own it has that of whoever made it.
#[allow(unsafe_code, reason = "neither std nor rustix has the call")]
pub(crate) fn keyring() -> Value {
    const DESCRIBE: i32 = 6;
    const OF_THE_SESSION: i32 = -3;
    let mut text = [0_u8; 256];
    // SAFETY: the kernel writes at most as much as the buffer is told to have.
    let length = unsafe {
        let (buffer, room) = (text.as_mut_ptr(), text.len());
        libc::syscall(libc::SYS_keyctl, DESCRIBE, OF_THE_SESSION, buffer, room)
    };
    let length = usize::try_from(length).unwrap_or_default();
    let text = String::from_utf8_lossy(text.get(..length).unwrap_or_default());
    json!(text.trim_end_matches('\0'))
}
