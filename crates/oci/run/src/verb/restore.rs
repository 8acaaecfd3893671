//! `restore`: restores a container from a checkpoint with CRIU.

use std::os::fd::AsFd;

use super::command::{Call, HELP, Verb};
use super::{checkpoint, create, delete, run};
use crate::args::{FlagsEnd, switch, valued};
use crate::bundle::Bundle;
use crate::criu;
use crate::error::Result;
use crate::foreground;
use crate::launch::write_pid;

pub(super) const VERB: Verb = Verb {
    name: "restore",
    about: "restore a container from a checkpoint",
    arguments: "CONTAINER",
    flags: &[
        HELP,
        create::BUNDLE,
        create::CONSOLE_SOCKET,
        checkpoint::IMAGE_PATH,
        checkpoint::WORK_PATH,
        checkpoint::TCP_ESTABLISHED,
        checkpoint::EXT_UNIX_SK,
        checkpoint::SHELL_JOB,
        checkpoint::FILE_LOCKS,
        checkpoint::MANAGE_CGROUPS_MODE,
        switch("detach", Some('d'), "detach from the container's process"),
        create::PID_FILE,
        switch(
            "no-subreaper",
            None,
            "ignored; orlop-run never becomes a subreaper",
        ),
        switch(
            "no-pivot",
            None,
            "ignored; CRIU enters the root filesystem itself",
        ),
        checkpoint::EMPTY_NS,
        checkpoint::AUTO_DEDUP,
        checkpoint::LAZY_PAGES,
        valued(
            "lsm-profile",
            None,
            "TYPE:NAME",
            "set an LSM profile for the restored process (TYPE is apparmor or selinux)",
        ),
        valued(
            "lsm-mount-context",
            None,
            "CONTEXT",
            "set an LSM mount context for the restored mounts",
        ),
    ],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run: restore,
};

fn restore(call: &Call<'_>) -> Result<u8> {
    if !rustix::process::geteuid().is_root() {
        call.log.warn("orlop-run restore is untested without root");
    }
    let id = call.parsed.only("the container ID")?;
    let detach = call.parsed.is_on("detach")?;
    let bundle = Bundle::open(&create::bundle_of(call.parsed))?;
    let process = bundle.spec.process.as_ref();
    let terminal = process.is_some_and(|process| process.terminal);
    let console = run::console(call.parsed.path("console-socket"), detach, terminal)?;
    let options = checkpoint::options(call.parsed)?;
    let restored = criu::restore(call.globals, call.log, &id, &bundle, &console, &options)?;
    let (dir, state) = (&restored.dir, &restored.state);
    if let Some(path) = call.parsed.path("pid-file")
        && let Err(error) = write_pid(&path, state.pid)
    {
        delete::destroy(dir, state, true)?;
        return Err(error);
    }
    if detach {
        return Ok(0);
    }
    let terminal = run::own_terminal(&console)?;
    let code = foreground::stand_by(state.pid, restored.process.as_fd(), terminal)?;
    delete::destroy(dir, state, true)?;
    Ok(code)
}
