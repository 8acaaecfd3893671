//! `create`: creates a container that waits for its start.

use std::path::PathBuf;

use super::command::{Call, HELP, Verb};
use crate::args::{Flag, FlagsEnd, Parsed, switch, valued};
use crate::attached::Attached;
use crate::bundle::Bundle;
use crate::error::{Error, Result, While};
use crate::launch::{self, Console, Options};

pub(super) const VERB: Verb = Verb {
    name: "create",
    about: "create a container",
    arguments: "CONTAINER",
    flags: &[
        HELP,
        BUNDLE,
        CONSOLE_SOCKET,
        PID_FILE,
        PIDFD_SOCKET,
        NO_PIVOT,
        NO_NEW_KEYRING,
        PRESERVE_FDS,
        GIVEN_MOUNTS,
    ],
    flags_end: FlagsEnd::Nowhere,
    enters: true,
    failed: Some("orlop-run create failed"),
    run,
};

pub(super) const BUNDLE: Flag = valued(
    "bundle",
    Some('b'),
    "DIR",
    "path to the bundle directory (default: the current directory)",
);
pub(super) const CONSOLE_SOCKET: Flag = valued(
    "console-socket",
    None,
    "PATH",
    "path to an AF_UNIX socket that receives the master end of the terminal",
);
pub(super) const PID_FILE: Flag = valued(
    "pid-file",
    None,
    "FILE",
    "write the process ID to this file",
);
pub(super) const PIDFD_SOCKET: Flag = valued(
    "pidfd-socket",
    None,
    "PATH",
    "path to an AF_UNIX socket that receives a pidfd of the process",
);
pub(super) const NO_PIVOT: Flag = switch(
    "no-pivot",
    None,
    "do not use pivot_root (for a root filesystem on a ramdisk)",
);
pub(super) const NO_NEW_KEYRING: Flag =
    switch("no-new-keyring", None, "keep the caller's session keyring");
pub(super) const PRESERVE_FDS: Flag = valued(
    "preserve-fds",
    None,
    "N",
    "pass N additional file descriptors to the process (stdio + $LISTEN_FDS + N in total)",
);

// A flag, so that a version that does not know it reports an error.
const GIVEN_MOUNTS: Flag = switch(
    "given-mounts",
    None,
    "attach the mounts that ORLOP_RUN_MOUNTS lists",
);

fn run(call: &Call<'_>) -> Result<u8> {
    crate::heap::warm();
    let id = call.parsed.only("the container ID")?;
    let mut bundle = Bundle::open(&bundle_of(call.parsed))?;
    let console = call
        .parsed
        .path("console-socket")
        .map_or(Console::None, Console::Socket);
    let attached = if call.parsed.is_on("given-mounts")? {
        Attached::passed_on()?
    } else {
        Attached::default()
    };
    if bundle.takes_mounts()? {
        bundle.attached = attached;
    } else {
        attached.enter()?;
    }
    let options = Options {
        leaves: true,
        ..options(call.parsed, console)?
    };
    let _made = launch::create(call.globals, call.log, &id, &bundle, &options)?;
    // The caller waits for the exit of this process, and nothing needs cleanup.
    crate::sys::exit_now(0)
}

pub(super) fn bundle_of(parsed: &Parsed) -> PathBuf {
    parsed.path("bundle").unwrap_or_else(|| PathBuf::from("."))
}

/// Returns the options that `create` and `run` share.
pub(super) fn options(parsed: &Parsed, console: Console) -> Result<Options> {
    let preserve_fds = parsed.number("preserve-fds")?.unwrap_or(0) + listen_fds()?;
    for fd in 3..3 + preserve_fds {
        if !crate::sys::was_passed_on(fd) {
            return Err(Error::new(format!(
                "--preserve-fds: descriptor {fd} is not open"
            )));
        }
    }
    // From here on, new descriptors have higher numbers than the preserved ones.
    crate::sys::keep_open(3, preserve_fds).doing(|| "--preserve-fds".to_owned())?;
    Ok(Options {
        pid_file: parsed.path("pid-file"),
        pidfd_socket: parsed.path("pidfd-socket"),
        console,
        preserve_fds,
        no_pivot: parsed.is_on("no-pivot")?,
        no_new_keyring: parsed.is_on("no-new-keyring")?,
        leaves: false,
    })
}

/// Sockets passed by systemd socket activation, which the container inherits.
fn listen_fds() -> Result<u32> {
    let own = std::env::var("LISTEN_PID").is_ok_and(|pid| pid == std::process::id().to_string());
    match std::env::var("LISTEN_FDS") {
        Ok(count) if own => count.parse().doing(|| "LISTEN_FDS".to_owned()),
        _ => Ok(0),
    }
}
