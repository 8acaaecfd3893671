//! The process of a command executed in a running container.

use orlop_launch::oci::{CpuAffinity, Process};

use super::Error;

/// The process: the container's own with another command.
///
/// User, rights, environment and working directory are those the container was made with.
pub fn process(
    container: &Process,
    command: &[String],
    tty: bool,
    affinity: Option<&CpuAffinity>,
) -> Result<Process, Error> {
    if command.first().is_none_or(String::is_empty) {
        return Err(Error::invalid("cmd", "no command is given"));
    }
    if command.iter().any(|word| word.contains('\0')) {
        return Err(Error::invalid("cmd", "contains a NUL character"));
    }
    let mut process = Process {
        args: command.to_vec(),
        terminal: tty,
        console_size: None,
        exec_cpu_affinity: affinity.cloned(),
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
    fn no_command_is_refused() {
        for bad in [vec![], vec![String::new()], vec!["a\0".to_owned()]] {
            assert!(
                process(&Process::default(), &bad, false, None).is_err(),
                "{bad:?}"
            );
        }
    }
}
