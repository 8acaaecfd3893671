//! `ps`: lists the processes of a container.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::command::{Call, HELP, Verb};
use crate::args::{FlagsEnd, text_of, valued};
use crate::error::{Error, Result, While};
use crate::state::StateDir;

pub(super) const VERB: Verb = Verb {
    name: "ps",
    about: "display the processes in a container",
    arguments: "CONTAINER [PS OPTIONS]",
    flags: &[
        HELP,
        valued(
            "format",
            Some('f'),
            "table|json",
            "set the output format (default: table)",
        ),
    ],
    flags_end: FlagsEnd::AtFirstArgument,
    enters: false,
    failed: None,
    run,
};

/// More than the output of `ps` for all processes of a node.
const LIMIT: u64 = 64 << 20;

fn run(call: &Call<'_>) -> Result<u8> {
    let (id, arguments) = call
        .parsed
        .rest
        .split_first()
        .ok_or_else(|| Error::new("the container ID is missing"))?;
    let dir = StateDir::of(&call.globals.root, &text_of(id, "the container ID")?)?;
    let state = dir.load()?;
    call.may_lack_cgroups("ps");
    let pids = state.cgroup.pids(true)?;
    let output = match call.parsed.text("format")?.as_deref() {
        None | Some("table") => table(&pids, arguments)?,
        Some("json") => {
            serde_json::to_string(&pids).doing(|| "cannot encode the process list".to_owned())?
                + "\n"
        }
        Some(_) => return Err(Error::new("invalid format option")),
    };
    let written = std::io::stdout().write_all(output.as_bytes());
    written.doing(|| "writing to standard output".to_owned())?;
    Ok(0)
}

/// Returns the heading of `ps`, and its lines about these processes.
fn table(pids: &[i32], arguments: &[OsString]) -> Result<String> {
    let usual = [OsString::from("-ef")];
    let arguments = if arguments.is_empty() {
        &usual
    } else {
        arguments
    };
    let mut child = Command::new("ps")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .doing(|| "cannot run ps".to_owned())?;
    let output = child
        .stdout
        .take()
        .map(|it| orlop_fs::read_whole_text(it, LIMIT));
    let status = child.wait().doing(|| "cannot run ps".to_owned())?;
    let output = output
        .transpose()
        .doing(|| "cannot read the output of ps".to_owned())?
        .unwrap_or_default();
    if !status.success() {
        return Err(Error::new(format!("ps failed: {status}")));
    }
    lines(&output, pids)
}

fn lines(output: &str, pids: &[i32]) -> Result<String> {
    let mut lines = output.lines();
    let heading = lines.next().unwrap_or_default();
    let column = heading.split_whitespace().position(|it| it == "PID");
    let column = column.ok_or_else(|| Error::new("couldn't find PID field in ps output"))?;
    let is_one = |line: &&str| {
        let pid = line
            .split_whitespace()
            .nth(column)
            .and_then(|it| it.parse().ok());
        pid.is_some_and(|pid| pids.contains(&pid))
    };
    let chosen = [heading].into_iter().chain(lines.filter(is_one));
    Ok(chosen.flat_map(|line| [line, "\n"]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_processes_those_of_the_container_are_listed() {
        let output =
            "UID   PID  PPID CMD\nroot  7  1 sh -c 12\nroot  12  7 sleep 7\nroot  13  7 ps\n";
        assert_eq!(
            lines(output, &[7, 13]).unwrap(),
            "UID   PID  PPID CMD\nroot  7  1 sh -c 12\nroot  13  7 ps\n"
        );
        let error = lines("USER CMD\nroot sh\n", &[7]).unwrap_err().to_string();
        assert_eq!(error, "couldn't find PID field in ps output");
    }
}
