//! `exec`: runs another process in a container.

use std::os::fd::AsFd;

use orlop_oci_types::{CAPABILITIES, Capabilities, Process, Spec};

use super::command::{Call, HELP, Verb};
use super::{create, run};
use crate::args::{FlagsEnd, Parsed, switch, text_of, valued};
use crate::bundle::CONFIG;
use crate::error::{Error, Result};
use crate::foreground;
use crate::json;
use crate::launch;
use crate::state::StateDir;

pub(super) const VERB: Verb = Verb {
    name: "exec",
    about: "execute a process in a container",
    arguments: "CONTAINER COMMAND [ARGUMENTS]",
    flags: &[
        HELP,
        create::CONSOLE_SOCKET,
        valued(
            "cwd",
            None,
            "DIR",
            "set the working directory of the process",
        ),
        valued(
            "env",
            Some('e'),
            "NAME=VALUE",
            "set an environment variable",
        ),
        switch("tty", Some('t'), "allocate a terminal"),
        valued(
            "user",
            Some('u'),
            "UID[:GID]",
            "set the user ID and group ID of the process",
        ),
        valued(
            "additional-gids",
            Some('g'),
            "GID",
            "add a supplementary group ID",
        ),
        valued(
            "process",
            Some('p'),
            "FILE",
            "path to a process.json that describes the process",
        ),
        switch("detach", Some('d'), "detach from the process"),
        create::PID_FILE,
        create::PIDFD_SOCKET,
        valued(
            "process-label",
            None,
            "LABEL",
            "set the SELinux label of the process",
        ),
        valued(
            "apparmor",
            None,
            "PROFILE",
            "set the AppArmor profile of the process",
        ),
        switch("no-new-privs", None, "set no_new_privs for the process"),
        valued(
            "cap",
            Some('c'),
            "CAP",
            "add a capability to the capabilities of the process",
        ),
        create::PRESERVE_FDS,
        valued(
            "cgroup",
            None,
            "[CONTROLLERS:]PATH",
            "run the process in a sub-cgroup of the container",
        ),
        switch("ignore-paused", None, "allow exec in a paused container"),
        switch("no-subreaper", None, "ignored"),
    ],
    flags_end: FlagsEnd::AtFirstArgument,
    enters: true,
    failed: Some("exec failed"),
    run: exec,
};

/// Exit code of a command that could not be run.
const FAILED: u8 = 255;

fn exec(call: &Call<'_>) -> Result<u8> {
    join(call).map_err(|error| error.with_code(FAILED))
}

fn join(call: &Call<'_>) -> Result<u8> {
    let parsed = call.parsed;
    let (id, command) = parsed
        .rest
        .split_first()
        .ok_or_else(|| Error::new("the container ID is missing"))?;
    let dir = StateDir::of(&call.globals.root, &text_of(id, "the container ID")?)?;
    let state = dir.load()?;
    let spec: Spec = json::read(&state.bundle.join(CONFIG))?;
    let linux = spec.linux;
    let process = process(parsed, spec.process, command)?;
    let detach = parsed.is_on("detach")?;
    let console = run::console(parsed.path("console-socket"), detach, process.terminal)?;
    let options = create::options(parsed, console)?;
    let below: Vec<String> = parsed
        .values("cgroup")
        .map(|it| text_of(it, "--cgroup"))
        .collect::<Result<_>>()?;
    let joined = launch::join(
        call.log,
        &dir,
        &state,
        &process,
        linux.as_ref(),
        &options,
        &below,
        parsed.is_on("ignore-paused")?,
    )
    .map_err(|error| error.within("unable to start container process"))?;
    if detach {
        return Ok(0);
    }
    let terminal = run::own_terminal(&options.console)?;
    let code = foreground::stand_by(joined.pid, joined.process.as_fd(), terminal)?;
    call.log
        .debug(|| format!("process {} exited with {code}", joined.pid));
    Ok(code)
}

/// Returns the process from `--process` or the flags; `own` is that of the container.
fn process(
    parsed: &Parsed,
    own: Option<Process>,
    command: &[std::ffi::OsString],
) -> Result<Process> {
    if let Some(path) = parsed.path("process") {
        let given = json::read_given(&path)?;
        return Ok(match own {
            Some(own) => as_the_container(given, own),
            None => given,
        });
    }
    if command.is_empty() {
        return Err(Error::new("process args cannot be empty"));
    }
    let mut process = own.ok_or_else(|| {
        Error::new("process: this section is missing in the container's config.json")
    })?;
    process.args = command
        .iter()
        .map(|word| text_of(word, "the command"))
        .collect::<Result<_>>()?;
    if let Some(cwd) = parsed.text("cwd")? {
        process.cwd = cwd;
    }
    if let Some(profile) = parsed.text("apparmor")? {
        process.apparmor_profile = profile;
    }
    if let Some(label) = parsed.text("process-label")? {
        process.selinux_label = label;
    }
    for cap in parsed.values("cap") {
        add(
            process.capabilities.get_or_insert_default(),
            text_of(cap, "--cap")?,
        )?;
    }
    process.terminal = parsed.is_on("tty")?;
    if !process.terminal {
        process.console_size = None;
    }
    if parsed.value("no-new-privs").is_some() {
        process.no_new_privileges = parsed.is_on("no-new-privs")?;
    }
    for entry in parsed.values("env") {
        process.env.push(text_of(entry, "--env")?);
    }
    if let Some(user) = parsed.text("user")? {
        let (uid, gid) = match user.split_once(':') {
            Some((uid, gid)) => (uid, Some(gid)),
            None => (user.as_str(), None),
        };
        let number = |text: &str, what: &str| {
            text.parse()
                .map_err(|_| Error::new(format!("--user: parsing {text} as int for {what} failed")))
        };
        process.user.uid = number(uid, "uid")?;
        if let Some(gid) = gid {
            process.user.gid = number(gid, "gid")?;
        }
    }
    for gid in parsed.values("additional-gids") {
        let text = text_of(gid, "--additional-gids")?;
        let gid = text.parse().map_err(|_| {
            Error::new(format!(
                "--additional-gids: {text:?} is not a valid group ID"
            ))
        })?;
        process.user.additional_gids.push(gid);
    }
    Ok(process)
}

/// Fills settings missing in a `process.json` from the container's own process.
fn as_the_container(mut process: Process, own: Process) -> Process {
    if process.capabilities.is_none() {
        process.capabilities = own.capabilities;
    }
    if process.apparmor_profile.is_empty() {
        process.apparmor_profile = own.apparmor_profile;
    }
    if process.selinux_label.is_empty() {
        process.selinux_label = own.selinux_label;
    }
    if process.rlimits.is_empty() {
        process.rlimits = own.rlimits;
    }
    process.scheduler = process.scheduler.or(own.scheduler);
    process.io_priority = process.io_priority.or(own.io_priority);
    process.exec_cpu_affinity = process.exec_cpu_affinity.or(own.exec_cpu_affinity);
    process
}

/// Adds a capability as runc does: to the bounding, permitted and effective sets, and to the ambient set if the
/// container's process has inheritable ones.
fn add(caps: &mut Capabilities, cap: String) -> Result<()> {
    if !CAPABILITIES.contains(&cap.as_str()) {
        return Err(Error::new(format!("--cap: unknown capability {cap:?}")));
    }
    for set in [&mut caps.bounding, &mut caps.effective, &mut caps.permitted] {
        if !set.contains(&cap) {
            set.push(cap.clone());
        }
    }
    if !caps.inheritable.is_empty() && !caps.ambient.contains(&cap) {
        caps.ambient.push(cap);
    }
    Ok(())
}
