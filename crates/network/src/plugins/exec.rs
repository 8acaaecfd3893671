//! Plugins that run as programs.

use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde_json::Value;

use crate::error::PluginFailure;

/// Limits of one run of a plugin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum run time, after which the plugin is killed.
    pub(crate) timeout: Duration,
    /// Maximum number of output bytes that are read.
    pub(crate) output: usize,
}

impl Limits {
    /// Returns limits with a timeout and the usual output limit.
    pub(crate) fn with_timeout(timeout: Duration) -> Self {
        Self {
            timeout,
            output: 1 << 20,
        }
    }
}

/// Number of bytes kept of a failed plugin's stderr.
const STDERR_KEPT: usize = 4096;

/// Number of bytes shown of output that cannot be parsed.
const GARBAGE_SHOWN: usize = 256;

/// Finds a plugin's program: the first directory with an executable file of that name wins.
pub(crate) fn find_program(kind: &str, dirs: &[PathBuf]) -> Result<PathBuf, PluginFailure> {
    let mut not_executable = None;
    for dir in dirs {
        let path = dir.join(kind);
        let Ok(metadata) = std::fs::metadata(&path) else {
            continue;
        };
        if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
            return Ok(path);
        }
        not_executable.get_or_insert(path);
    }
    match not_executable {
        Some(path) => Err(PluginFailure::Start {
            path,
            source: io::Error::other("it is not an executable file"),
        }),
        None => Err(PluginFailure::Missing {
            searched: dirs.to_vec(),
        }),
    }
}

/// Runs a program with `env` added to the daemon's own environment, and writes `stdin` to it. Returns the JSON that
/// it printed (`None` if it printed nothing).
pub(crate) fn run(
    program: &Path,
    env: &[(&str, &str)],
    stdin: &[u8],
    limits: Limits,
) -> Result<Option<Value>, PluginFailure> {
    let mut child = start(program, env)?;
    let output = converse(&mut child, stdin, limits);
    if output.is_err() {
        // Also kills the plugin's own children (an IPAM plugin, iptables).
        let _ = kill_process_group(pid_of(&child), Signal::KILL);
        let _ = child.wait();
    }
    let output = output?;
    let text = String::from_utf8_lossy(&output.stdout);
    let text = text.trim();
    let parsed: Option<Result<Value, _>> =
        (!text.is_empty()).then(|| serde_json::from_slice::<Value>(text.as_bytes()));
    if output.status.success() {
        return match parsed {
            None => Ok(None),
            Some(Ok(value @ Value::Object(_))) => Ok(Some(value)),
            Some(Ok(_)) => Err(garbage("not a JSON object".to_owned(), text)),
            Some(Err(error)) => Err(garbage(error.to_string(), text)),
        };
    }
    Err(match parsed {
        Some(Ok(value)) if value.get("msg").is_some() || value.get("code").is_some() => {
            reported(&value)
        }
        _ => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let said = if stderr.trim().is_empty() {
                shorten(text)
            } else {
                stderr.trim().to_owned()
            };
            PluginFailure::Died {
                status: describe(output.status),
                stderr: said,
            }
        }
    })
}

fn reported(value: &Value) -> PluginFailure {
    let text = |key: &str| {
        value
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (mut msg, details) = (text("msg"), text("details"));
    if msg.is_empty() && details.is_empty() {
        "no reason given".clone_into(&mut msg);
    }
    PluginFailure::Reported {
        code: value.get("code").and_then(Value::as_u64).unwrap_or(0),
        msg,
        details,
    }
}

fn start(program: &Path, env: &[(&str, &str)]) -> Result<Child, PluginFailure> {
    let mut command = Command::new(program);
    // Plugins inherit the daemon's environment, for example proxy settings, except variables for the daemon's own
    // dynamic loader.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"LD_") {
            command.env_remove(name);
        }
    }
    command
        .envs(env.iter().copied())
        .process_group(0)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut retries = orlop_pool::Retries::default();
    loop {
        match orlop_pool::started(command.spawn()) {
            Ok(child) => return Ok(child),
            Err(error) => match retries.pause(error) {
                Ok(pause) => std::thread::sleep(pause),
                Err(source) => {
                    let path = program.to_owned();
                    return Err(PluginFailure::Start { path, source });
                }
            },
        }
    }
}

struct Output {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Writes stdin and reads both outputs concurrently until the program ends, so that no full pipe blocks another.
fn converse(child: &mut Child, input: &[u8], limits: Limits) -> Result<Output, PluginFailure> {
    let talk = PluginFailure::Talk;
    let deadline = Instant::now() + limits.timeout;
    let ended = pidfd_open(pid_of(child), PidfdFlags::empty()).map_err(|e| talk(e.into()))?;
    let mut stdin = child.stdin.take();
    let mut stdout = child.stdout.take();
    let mut stderr = child.stderr.take();
    for fd in [
        stdin.as_ref().map(AsFd::as_fd),
        stdout.as_ref().map(AsFd::as_fd),
        stderr.as_ref().map(AsFd::as_fd),
    ]
    .into_iter()
    .flatten()
    {
        ioctl_fionbio(fd, true).map_err(|e| talk(e.into()))?;
    }
    let mut written = 0;
    let mut out = Vec::new();
    let mut err = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(PluginFailure::TimedOut(limits.timeout));
        }
        if !wait(
            &ended,
            stdin.as_ref(),
            stdout.as_ref(),
            stderr.as_ref(),
            left,
        )
        .map_err(talk)?
        {
            continue;
        }
        let over = pid_ended(&ended).map_err(talk)?;
        if let Some(pipe) = &mut stdin {
            match pipe.write(&input[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A plugin may ignore its input; its exit status shows a failure.
                Err(_) => written = input.len(),
            }
            if written == input.len() {
                stdin = None;
            }
        }
        if drain(&mut stdout, &mut out, limits.output).map_err(talk)? {
            let shown = String::from_utf8_lossy(&out).into_owned();
            return Err(garbage(
                format!("more than {} bytes", limits.output),
                &shown,
            ));
        }
        let _ = drain(&mut stderr, &mut err, usize::MAX).map_err(talk)?;
        if err.len() > STDERR_KEPT {
            err.drain(..err.len() - STDERR_KEPT);
        }
        if over {
            let status = child.wait().map_err(talk)?;
            return Ok(Output {
                status,
                stdout: out,
                stderr: err,
            });
        }
    }
}

/// Waits until a pipe is ready or the program ended; returns `false` if the timeout expired first.
fn wait(
    ended: &OwnedFd,
    stdin: Option<&impl AsFd>,
    stdout: Option<&impl AsFd>,
    stderr: Option<&impl AsFd>,
    left: Duration,
) -> io::Result<bool> {
    let mut fds = vec![PollFd::new(ended, PollFlags::IN)];
    fds.extend(stdin.map(|fd| PollFd::new(fd, PollFlags::OUT)));
    fds.extend(stdout.map(|fd| PollFd::new(fd, PollFlags::IN)));
    fds.extend(stderr.map(|fd| PollFd::new(fd, PollFlags::IN)));
    let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn pid_ended(ended: &OwnedFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(ended, PollFlags::IN)];
    Ok(poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )? > 0)
}

/// Reads the available bytes; returns `true` if the total exceeds `limit`.
fn drain(pipe: &mut Option<impl Read>, into: &mut Vec<u8>, limit: usize) -> io::Result<bool> {
    let Some(open) = pipe else { return Ok(false) };
    let mut buffer = [0_u8; 16 << 10];
    loop {
        match open.read(&mut buffer) {
            Ok(0) => {
                *pipe = None;
                return Ok(false);
            }
            Ok(count) => into.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if into.len() > limit {
            return Ok(true);
        }
        if limit == usize::MAX && into.len() > 16 * STDERR_KEPT {
            return Ok(false);
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn garbage(problem: String, text: &str) -> PluginFailure {
    PluginFailure::Garbage {
        problem,
        output: shorten(text),
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(GARBAGE_SHOWN).collect()
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it exited with {code}"),
        (_, Some(signal)) => format!("it was killed by signal {signal}"),
        _ => "it ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plugin");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, path)
    }

    fn run_script(text: &str, stdin: &[u8]) -> Result<Option<Value>, PluginFailure> {
        let (_dir, path) = script(text);
        let limits = Limits {
            timeout: Duration::from_millis(700),
            output: 100_000,
        };
        run(&path, &[("CNI_COMMAND", "ADD")], stdin, limits)
    }

    #[test]
    fn json_in_json_out() {
        let value = run_script(r#"read x; echo "{\"a\":\"$CNI_COMMAND$x\"}""#, b"7\n").unwrap();
        assert_eq!(value.unwrap()["a"], "ADD7");
        assert_eq!(
            run_script("cat >/dev/null", &vec![b'x'; 300_000]).unwrap(),
            None
        );
        // A plugin may ignore its input.
        assert_eq!(run_script("exit 0", &vec![b'x'; 300_000]).unwrap(), None);
    }

    #[test]
    fn every_way_to_fail_is_told_apart() {
        let error = |text: &str| run_script(text, b"{}").unwrap_err().to_string();
        assert_eq!(
            error(r#"echo '{"code":11,"msg":"busy","details":"lock held"}'; exit 1"#),
            "busy: lock held (code 11)"
        );
        assert_eq!(
            error(r#"echo '{"code":0,"msg":""}'; exit 1"#),
            "no reason given (code 0)"
        );
        assert_eq!(error("echo oops >&2; exit 3"), "it exited with 3: oops");
        assert_eq!(
            error("kill -9 $$"),
            "it was killed by signal 9 without output"
        );
        assert!(error("echo hello").contains("is malformed"));
        assert!(error("echo '[1]'").contains("not a JSON object"));
        assert!(error("head -c 200000 /dev/zero").contains("more than 100000 bytes"));
    }

    #[test]
    fn a_hanging_plugin_is_killed_with_its_children() {
        let started = Instant::now();
        let marker = format!("3{}.5", std::process::id());
        let error = run_script(&format!("sleep {marker} & sleep {marker}"), b"").unwrap_err();
        assert!(matches!(error, PluginFailure::TimedOut(_)), "{error}");
        assert!(started.elapsed() < Duration::from_secs(5));
        let alive = || {
            std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
                std::fs::read_to_string(entry.path().join("cmdline"))
                    .is_ok_and(|line| line == format!("sleep\0{marker}\0"))
            })
        };
        // A killed process may take a moment to disappear.
        let deadline = Instant::now() + Duration::from_secs(5);
        while alive() {
            assert!(Instant::now() < deadline, "a child of the plugin survived");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn programs_are_looked_for_in_order() {
        let (dir, path) = script("");
        let other = tempfile::tempdir().unwrap();
        let dirs = [other.path().to_owned(), dir.path().to_owned()];
        assert_eq!(find_program("plugin", &dirs).unwrap(), path);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = find_program("plugin", &dirs).unwrap_err();
        assert!(matches!(error, PluginFailure::Start { .. }), "{error}");
        let error = find_program("absent", &dirs).unwrap_err().to_string();
        assert!(error.contains(&dir.path().display().to_string()), "{error}");
    }
}
