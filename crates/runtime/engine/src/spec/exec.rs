//! The process of a command executed in a running container.

use orlop_oci_types::{CpuAffinity, Process};

use super::Error;

/// The CPUs of commands executed in containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecAffinity {
    /// The first CPU of the container's.
    First,
    /// These CPUs, as `0-3,7`.
    Cpus(String),
}

impl ExecAffinity {
    /// Returns the affinity of a command in a container with these CPUs; an empty list means all.
    pub fn among(&self, cpuset: &str) -> CpuAffinity {
        let cpus = match self {
            Self::Cpus(list) => list.as_str(),
            // A list like `2-5,8`; an empty one means all CPUs, of which 0 is the first.
            Self::First => match cpuset.split([',', '-']).next() {
                None | Some("") => "0",
                Some(first) => first,
            },
        };
        CpuAffinity {
            initial: cpus.to_owned(),
            last: cpus.to_owned(),
        }
    }
}

/// Returns the process of the command: the container's own process with other arguments.
///
/// User, rights, environment and working directory are those the container was created with.
pub fn process(
    container: &Process,
    command: &[String],
    tty: bool,
    affinity: Option<CpuAffinity>,
) -> Result<Process, Error> {
    if command.first().is_none_or(String::is_empty) {
        return Err(Error::invalid("cmd", "is empty; specify a command"));
    }
    if command.iter().any(|word| word.contains('\0')) {
        return Err(Error::invalid("cmd", "contains a NUL character"));
    }
    let mut process = Process {
        args: command.to_vec(),
        terminal: tty,
        console_size: None,
        exec_cpu_affinity: affinity,
        ..container.clone()
    };
    if tty && !process.env.iter().any(|entry| entry.starts_with("TERM=")) {
        process.env.push("TERM=xterm".to_owned());
    }
    Ok(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_containers_rights() {
        let container = Process {
            args: vec!["sleep".into()],
            env: vec!["A=1".into()],
            no_new_privileges: true,
            cwd: "/srv".into(),
            ..Process::default()
        };
        let made = process(&container, &["id".to_owned(), "-u".to_owned()], true, None).unwrap();
        assert_eq!(made.args, ["id", "-u"]);
        assert_eq!(made.env, ["A=1", "TERM=xterm"]);
        assert!(made.terminal && made.no_new_privileges);
        assert_eq!(made.cwd, "/srv");
    }

    #[test]
    fn the_first_cpu_is_the_containers() {
        for (cpuset, first) in [("2-5,8", "2"), ("7", "7"), ("", "0"), ("1,3", "1")] {
            assert_eq!(ExecAffinity::First.among(cpuset).last, first);
        }
        let own = ExecAffinity::Cpus("0-1".into()).among("2-5");
        assert_eq!((own.initial.as_str(), own.last.as_str()), ("0-1", "0-1"));
    }

    #[test]
    fn no_command_is_refused() {
        for bad in [vec![], vec![String::new()], vec!["a\0".to_owned()]] {
            assert!(
                process(&Process::default(), &bad, false, None).is_err(),
                "{bad:?}"
            );
        }
    }
}
