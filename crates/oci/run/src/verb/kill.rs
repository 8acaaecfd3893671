//! `kill`: signals a container's process, or all of them.

use std::os::fd::AsFd;

use rustix::process::Signal;

use super::command::{Call, HELP, Verb};
use crate::args::{FlagsEnd, switch, text_of};
use crate::error::{Error, Result, While};
use crate::state::{State, StateDir, Status};
use crate::sys::{open_pidfd, pidfd_signal};

pub(super) const VERB: Verb = Verb {
    name: "kill",
    about: "send a signal to the container's init process (default: SIGTERM)",
    arguments: "CONTAINER [SIGNAL]",
    flags: &[
        HELP,
        switch(
            "all",
            Some('a'),
            "send the signal to all processes in the container's cgroup",
        ),
    ],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

/// Signals without the prefix `SIG`, with the numbers of x86 and arm.
const NAMES: [(&str, i32); 36] = [
    ("ABRT", libc::SIGABRT),
    ("ALRM", libc::SIGALRM),
    ("BUS", libc::SIGBUS),
    ("CHLD", libc::SIGCHLD),
    ("CLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("FPE", libc::SIGFPE),
    ("HUP", libc::SIGHUP),
    ("ILL", libc::SIGILL),
    ("INT", libc::SIGINT),
    ("IO", libc::SIGIO),
    ("IOT", libc::SIGIOT),
    ("KILL", libc::SIGKILL),
    ("PIPE", libc::SIGPIPE),
    ("POLL", libc::SIGPOLL),
    ("PROF", libc::SIGPROF),
    ("PWR", libc::SIGPWR),
    ("QUIT", libc::SIGQUIT),
    ("SEGV", libc::SIGSEGV),
    ("STKFLT", libc::SIGSTKFLT),
    ("STOP", libc::SIGSTOP),
    ("SYS", libc::SIGSYS),
    ("TERM", libc::SIGTERM),
    ("TRAP", libc::SIGTRAP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("VTALRM", libc::SIGVTALRM),
    ("WINCH", libc::SIGWINCH),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("RTMIN", 34),
    ("RTMAX", 64),
];

fn run(call: &Call<'_>) -> Result<u8> {
    let (id, signal) = match call.parsed.rest.as_slice() {
        [id] => (id, libc::SIGTERM),
        [id, signal] => (id, parse(&text_of(signal, "the signal")?)?),
        _ => {
            return Err(Error::new(
                "kill needs a container ID and at most one signal",
            ));
        }
    };
    let dir = StateDir::of(&call.globals.root, &text_of(id, "the container ID")?)?;
    let state = dir.load()?;
    let alive = state.status(&dir) != Status::Stopped;
    let own_processes = state.namespaces & libc::CLONE_NEWPID as u64 != 0;
    if call.parsed.is_on("all")? || signal == libc::SIGKILL && !own_processes {
        // If a container shares the host's PID namespace, some processes may outlive the first one.
        if alive {
            state.cgroup.refuse_none()?;
        }
        call.log.debug(|| {
            format!(
                "sending signal {signal} to all processes in {:?}",
                state.cgroup.paths()
            )
        });
        signal_all(&state, signal)?;
        return Ok(0);
    }
    call.log
        .debug(|| format!("sending signal {signal} to process {}", state.pid));
    let not_running = || Error::new("container not running");
    if !alive {
        return Err(not_running());
    }
    let init = state.init().ok_or_else(not_running)?;
    match pidfd_signal(init.as_fd(), signal) {
        Err(rustix::io::Errno::SRCH) => Err(not_running()),
        sent => sent
            .doing(|| format!("cannot signal process {}", state.pid))
            .map(|()| 0),
    }
}

/// Signals all processes in the cgroup.
fn signal_all(state: &State, signal: i32) -> Result<()> {
    if let Some(named) = Signal::from_named_raw(signal) {
        return state.cgroup.kill_all(named);
    }
    // Real-time signals and signal 0 are sent one by one.
    for pid in state.cgroup.pids(true)? {
        if let Ok(process) = open_pidfd(pid) {
            let _ = pidfd_signal(process.as_fd(), signal);
        }
    }
    Ok(())
}

/// Parses a signal number, or a name with or without `SIG`.
fn parse(text: &str) -> Result<i32> {
    let unknown = || Error::new(format!("unknown signal {text:?}"));
    if let Ok(number) = text.trim_start_matches('-').parse::<i32>() {
        return if (0..=64).contains(&number) {
            Ok(number)
        } else {
            Err(unknown())
        };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let real_time = name.split_once(['+', '-']).and_then(|(base, offset)| {
        let offset: i32 = offset.parse().ok()?;
        match base {
            "RTMIN" => Some(34 + offset),
            "RTMAX" => Some(64 - offset),
            _ => None,
        }
    });
    real_time
        .filter(|number| (34..=64).contains(number))
        .or_else(|| {
            NAMES
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, number)| *number)
        })
        .ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, number) in [
            ("9", 9),
            ("SIGTERM", 15),
            ("kill", 9),
            ("SIGRTMIN+3", 37),
            ("RTMAX-1", 63),
            ("0", 0),
        ] {
            assert_eq!(parse(text).unwrap(), number, "{text}");
        }
        for text in ["", "SIG", "NONSENSE", "65", "RTMIN+40"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
