//! Hooks that run outside the container.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use orlop_oci_types::Hook;

use crate::error::{Error, Result, While};
use crate::plan::{check_hook, limit_of_hook};
use crate::sys::{open_pidfd, poll_in};

/// Maximum number of bytes of a hook's output in an error.
pub(crate) const SAID: usize = 4096;

/// Runs a stage's hooks in order; each gets the state on standard input.
pub(crate) fn run(hooks: &[Hook], stage: &str, state: &serde_json::Value) -> Result<()> {
    for (index, hook) in hooks.iter().enumerate() {
        one(hook, state)
            .map_err(|error| error.within(format!("error running {stage} hook #{index}")))?;
    }
    Ok(())
}

fn one(hook: &Hook, state: &serde_json::Value) -> Result<()> {
    check_hook(hook)?;
    let mut command = Command::new(&hook.path);
    if let Some((name, rest)) = hook.args.split_first() {
        command.arg0(name).args(rest);
    }
    // A hook without an environment inherits ours, as with runc.
    command.env_remove(crate::protect::MARK);
    command.env_remove(crate::attached::VARIABLE);
    command.env_remove(crate::attached::NAMESPACE);
    if !hook.env.is_empty() {
        command.env_clear();
    }
    for entry in &hook.env {
        if let Some((name, value)) = entry.split_once('=') {
            command.env(name, value);
        }
    }
    if let Some(bundle) = state["bundle"].as_str() {
        command.current_dir(bundle);
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().doing(|| hook.path.clone())?;
    let process = open_pidfd(child.id() as i32).doing(|| hook.path.clone())?;
    if let Some(mut stdin) = child.stdin.take() {
        // A hook that reads nothing may have ended already.
        let _ = stdin.write_all(state.to_string().as_bytes());
    }
    let said = Said::of(&mut child)?;
    if !said.listen(&process, limit_of_hook(hook).unwrap_or(-1)) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(Error::new(format!(
            "{}: timed out after {} s and was killed",
            hook.path,
            hook.timeout.unwrap_or(0)
        )));
    }
    let status = child.wait().doing(|| hook.path.clone())?;
    if status.success() {
        return Ok(());
    }
    let how = match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => format!("exit status {}", status.code().unwrap_or(-1)),
    };
    let said = said.end();
    Err(Error::new(format!(
        "{}: {how}, stdout: {}, stderr: {}",
        hook.path, said.0, said.1
    )))
}

/// The output of a hook.
struct Said(OwnedFd, OwnedFd, std::cell::RefCell<(Vec<u8>, Vec<u8>)>);

impl Said {
    fn of(child: &mut std::process::Child) -> Result<Self> {
        let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Error::new("cannot read the output of the hook"));
        };
        let (out, err) = (OwnedFd::from(out), OwnedFd::from(err));
        for fd in [&out, &err] {
            rustix::io::ioctl_fionbio(fd, true)
                .doing(|| "cannot read the output of the hook".to_owned())?;
        }
        Ok(Self(out, err, std::cell::RefCell::default()))
    }

    /// Reads until the process has ended; returns false on a timeout.
    fn listen(&self, process: &OwnedFd, limit: i32) -> bool {
        let begun = std::time::Instant::now();
        loop {
            let over = i32::try_from(begun.elapsed().as_millis()).unwrap_or(i32::MAX);
            let left = if limit < 0 {
                50
            } else {
                (limit - over).clamp(0, 50)
            };
            if poll_in(process.as_fd(), left) {
                self.drain();
                return true;
            }
            self.drain();
            if limit >= 0 && over >= limit {
                return false;
            }
        }
    }

    fn drain(&self) {
        let (out, err) = &mut *self.2.borrow_mut();
        for (fd, kept) in [(&self.0, out), (&self.1, err)] {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = rustix::io::read(fd, &mut chunk) {
                let room = SAID.saturating_sub(kept.len());
                kept.extend_from_slice(&chunk[..count.min(room)]);
            }
        }
    }

    fn end(self) -> (String, String) {
        let (out, err) = self.2.into_inner();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (text(&out), text(&err))
    }
}
