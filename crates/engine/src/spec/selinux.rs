//! SELinux labels of processes and files, and relabelling of volumes.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use orlop_cri::v1;
use rustix::fs::XattrFlags;

use super::Error;

const FIELD: &str = "config.linux.security_context.selinux_options";

/// The contexts containers get where a request leaves parts open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelinuxDefaults {
    /// Of processes, as `system_u:system_r:container_t:s0`.
    pub process: String,
    /// Of files, as `system_u:object_r:container_file_t:s0`.
    pub file: String,
}

/// The labels of a pod or container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Of its processes.
    pub process: String,
    /// Of its files.
    pub file: String,
}

impl Labels {
    /// The labels a request asks for. What it leaves open comes from the defaults, the level from
    /// `level`, which the caller allots to one pod at a time (as `s0:c12,c34`).
    pub fn new(
        options: Option<&v1::SeLinuxOption>,
        defaults: &SelinuxDefaults,
        level: &str,
    ) -> Result<Self, Error> {
        let none = v1::SeLinuxOption::default();
        let options = options.unwrap_or(&none);
        for (part, name) in [
            (&options.user, "user"),
            (&options.role, "role"),
            (&options.r#type, "type"),
        ] {
            check_part(part, name, false)?;
        }
        check_part(&options.level, "level", true)?;

        let level = if options.level.is_empty() {
            level
        } else {
            &options.level
        };
        let [user, role, kind, default_level] = split(&defaults.process)?;
        let or = |asked: &str, default: &str| -> String {
            if asked.is_empty() {
                default.to_owned()
            } else {
                asked.to_owned()
            }
        };
        let level = or(level, default_level);
        let process = format!(
            "{}:{}:{}:{level}",
            or(&options.user, user),
            or(&options.role, role),
            or(&options.r#type, kind),
        );
        // Files keep their own role and type: those of the request are a process's.
        let [user, role, kind, _] = split(&defaults.file)?;
        let file = format!("{}:{role}:{kind}:{level}", or(&options.user, user));
        Ok(Self { process, file })
    }
}

/// Gives a volume and all below it the label of the container's files.
///
/// System directories are refused: relabelling `/etc` for one container breaks the node.
pub(super) fn relabel(path: &Path, label: &str, field: &str) -> Result<(), Error> {
    const KEPT: [&str; 17] = [
        "/",
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/etc/passwd",
        "/etc/pki",
        "/etc/shadow",
        "/home",
        "/lib",
        "/lib64",
        "/media",
        "/proc",
        "/root",
        "/sbin",
        "/sys",
        "/usr",
    ];
    if KEPT.iter().any(|kept| path == Path::new(kept)) {
        let problem = format!(
            "{} is part of the node and is not relabelled",
            path.display()
        );
        return Err(Error::invalid(field, problem));
    }
    let mut pending = vec![path.to_path_buf()];
    while let Some(path) = pending.pop() {
        let failed =
            |error: io::Error| Error::io(field, format!("relabelling {}", path.display()), error);
        match set_label(&path, label) {
            Ok(()) => {}
            // Filesystems without labels have one for the whole mount.
            Err(rustix::io::Errno::OPNOTSUPP) => return Ok(()),
            Err(rustix::io::Errno::NOENT) => continue,
            Err(error) => return Err(failed(error.into())),
        }
        if fs::symlink_metadata(&path).map_err(failed)?.is_dir() {
            for entry in fs::read_dir(&path).map_err(failed)? {
                pending.push(entry.map_err(failed)?.path());
            }
        }
    }
    Ok(())
}

fn set_label(path: &Path, label: &str) -> rustix::io::Result<()> {
    let mut value = label.as_bytes().to_vec();
    value.push(0);
    let path = path.as_os_str().as_bytes();
    rustix::fs::lsetxattr(path, "security.selinux", &value, XattrFlags::empty())
}

/// Splits `user:role:type:level`; the level itself may hold colons.
fn split(context: &str) -> Result<[&str; 4], Error> {
    let mut parts = context.splitn(4, ':');
    let mut next = || parts.next().filter(|part| !part.is_empty());
    if let (Some(user), Some(role), Some(kind), level) = (next(), next(), next(), next()) {
        return Ok([user, role, kind, level.unwrap_or("s0")]);
    }
    let problem = format!("the node's default context {context:?} is not a context");
    Err(Error::unmet(FIELD, problem))
}

fn check_part(part: &str, name: &str, colons: bool) -> Result<(), Error> {
    let fine = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') || (colons && ":,".contains(c))
    };
    if part.chars().all(fine) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("{FIELD}.{name}"),
        format!("{part:?} cannot be in a context"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> SelinuxDefaults {
        SelinuxDefaults {
            process: "system_u:system_r:container_t:s0".into(),
            file: "system_u:object_r:container_file_t:s0".into(),
        }
    }

    #[test]
    fn what_is_left_open_comes_from_node_and_pod() {
        let labels = Labels::new(None, &defaults(), "s0:c1,c2").unwrap();
        assert_eq!(labels.process, "system_u:system_r:container_t:s0:c1,c2");
        assert_eq!(labels.file, "system_u:object_r:container_file_t:s0:c1,c2");
    }

    #[test]
    fn a_requests_parts_replace_the_defaults() {
        let options = v1::SeLinuxOption {
            user: "u".into(),
            role: "r".into(),
            r#type: "spc_t".into(),
            level: "s0:c4".into(),
        };
        let labels = Labels::new(Some(&options), &defaults(), "s0:c1,c2").unwrap();
        assert_eq!(labels.process, "u:r:spc_t:s0:c4");
        assert_eq!(labels.file, "u:object_r:container_file_t:s0:c4");
    }

    #[test]
    fn parts_cannot_smuggle_in_others() {
        let options = v1::SeLinuxOption {
            user: "u:r:t".into(),
            ..Default::default()
        };
        let error = Labels::new(Some(&options), &defaults(), "")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("config.linux.security_context.selinux_options.user"),
            "{error}"
        );
    }

    #[test]
    fn the_nodes_own_directories_are_not_relabelled() {
        assert!(relabel(Path::new("/etc"), "l", "config.mounts[0]").is_err());
    }
}
