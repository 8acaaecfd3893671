//! Names of sysctls, and the namespaces that they belong to.

use super::Error;

const FIELD: &str = "config.linux.sysctls";

/// Sysctls of an IPC namespace.
const IPC: [&str; 8] = [
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
];

/// The kind of namespace that a sysctl belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Network,
    Ipc,
    HostName,
}

pub(super) fn scope(name: &str) -> Option<Scope> {
    match name {
        "kernel.domainname" => Some(Scope::HostName),
        _ if IPC.contains(&name) || name.starts_with("fs.mqueue.") => Some(Scope::Ipc),
        _ if name.starts_with("net.") => Some(Scope::Network),
        _ => None,
    }
}

/// Returns the name with dots between its parts. In a name with slashes, dots belong to a part (a device
/// like `eth0.100`); such a name keeps its slashes.
pub(super) fn dotted(name: &str) -> Result<String, Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-' | '*');
    let separator = name
        .find(['.', '/'])
        .map_or('.', |at| char::from(name.as_bytes()[at]));
    let parts = || name.split(separator);
    let fits = name.len() <= 253
        && name.chars().all(allowed)
        && parts().count() > 1
        && parts().all(|part| !matches!(part, "" | "." | ".."))
        && !(separator == '.' && name.contains("/."));
    if !fits {
        return Err(Error::invalid(
            FIELD,
            format!("{name:?} is not a kernel parameter name"),
        ));
    }
    if separator == '/' && !name.contains('.') {
        return Ok(name.replace('/', "."));
    }
    if separator == '/' {
        // Dots and slashes are swapped, as in sysctl(8).
        let swap = |c| match c {
            '/' => '.',
            '.' => '/',
            other => other,
        };
        return Ok(name.chars().map(swap).collect());
    }
    Ok(name.to_owned())
}
