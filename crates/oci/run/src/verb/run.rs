//! `run`: creates and starts a container, and waits for it.

use std::os::fd::AsFd;

use super::command::{Call, HELP, Verb};
use super::{create, delete, start};
use crate::args::{FlagsEnd, switch};
use crate::bundle::{Bundle, NO_PROCESS};
use crate::error::{Error, Result, While};
use crate::foreground;
use crate::launch::{self, Console};

pub(super) const VERB: Verb = Verb {
    name: "run",
    about: "create and run a container",
    arguments: "CONTAINER",
    flags: &[
        HELP,
        create::BUNDLE,
        create::CONSOLE_SOCKET,
        switch("detach", Some('d'), "detach from the container's process"),
        switch("keep", None, "do not delete the container after it exits"),
        create::PID_FILE,
        create::PIDFD_SOCKET,
        create::NO_PIVOT,
        create::NO_NEW_KEYRING,
        create::PRESERVE_FDS,
        switch(
            "no-subreaper",
            None,
            "ignored; orlop-run never becomes a subreaper",
        ),
    ],
    flags_end: FlagsEnd::Nowhere,
    enters: true,
    failed: Some("orlop-run run failed"),
    run,
};

fn run(call: &Call<'_>) -> Result<u8> {
    let id = call.parsed.only("the container ID")?;
    let detach = call.parsed.is_on("detach")?;
    let bundle = Bundle::open(&create::bundle_of(call.parsed))?;
    if !bundle.starts {
        return Err(Error::new(NO_PROCESS));
    }
    let terminal = bundle
        .spec
        .process
        .as_ref()
        .is_some_and(|process| process.terminal);
    let console = console(call.parsed.path("console-socket"), detach, terminal)?;
    let options = create::options(call.parsed, console)?;
    let created = launch::create(call.globals, call.log, &id, &bundle, &options)?;
    let started = start::start(&created.dir, &created.state, created.process.as_fd());
    if started.is_err() {
        delete::destroy(&created.dir, &created.state, true)?;
    }
    started?;
    if detach {
        return Ok(0);
    }
    let terminal = own_terminal(&options.console)?;
    let code = foreground::stand_by(created.state.pid, created.process.as_fd(), terminal)?;
    call.log
        .debug(|| format!("process {} exited with {code}", created.state.pid));
    if !call.parsed.is_on("keep")? {
        delete::destroy(&created.dir, &created.state, true)?;
    }
    Ok(code)
}

/// Chooses the receiver of the terminal's master end.
pub(super) fn console(
    socket: Option<std::path::PathBuf>,
    detach: bool,
    terminal: bool,
) -> Result<Console> {
    match socket {
        Some(_) if !detach => Err(Error::new(
            "cannot use console socket if orlop-run will not detach or allocate tty",
        )),
        Some(path) => Ok(Console::Socket(path)),
        None if terminal && !detach => {
            has_terminal()?;
            Ok(Console::Own(std::cell::RefCell::default()))
        }
        None => Ok(Console::None),
    }
}

/// Checks that this process has a terminal to connect to the container's.
fn has_terminal() -> Result<()> {
    use rustix::{stdio, termios::isatty};
    let streams = [stdio::stdin(), stdio::stdout(), stdio::stderr()];
    if streams.into_iter().any(isatty) {
        return Ok(());
    }
    let opened = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/tty");
    opened.map(drop).doing(|| "open /dev/tty".to_owned())
}

/// Receives the master end of a terminal that was sent to us.
pub(super) fn own_terminal(console: &Console) -> Result<Option<std::os::fd::OwnedFd>> {
    let Console::Own(socket) = console else {
        return Ok(None);
    };
    let Some(socket) = socket.borrow_mut().take() else {
        return Ok(None);
    };
    crate::sys::receive(socket.as_fd()).doing(|| "cannot receive the terminal".to_owned())
}
