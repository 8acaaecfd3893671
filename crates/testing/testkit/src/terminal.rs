//! A program on a pseudoterminal that the test controls.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const POLL: Duration = Duration::from_millis(10);

/// A running program on a pseudoterminal, ended on drop.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts a program on a terminal of this size.
    pub fn start(program: &Command, columns: u16, rows: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("open a pseudo-terminal");
        grantpt(&ours).expect("grant it");
        unlockpt(&ours).expect("unlock it");
        let name = ptsname(&ours, Vec::new()).expect("name it");
        let theirs = rustix::fs::openat(
            CWD,
            name,
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .expect("open its other end");
        let ours = File::from(ours);
        resize(&ours, columns, rows);
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().expect("duplicate a descriptor"));
        // A new session with the terminal as its controlling one, so that ctrl-c works.
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", "--wait"])
            .arg(program.get_program());
        command
            .args(program.get_args())
            .env("TERM", "xterm-256color");
        for (key, value) in program.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        let child = command
            .stdin(end(&theirs))
            .stdout(end(&theirs))
            .stderr(end(&theirs))
            .spawn()
            .unwrap_or_else(|e| panic!("starting {program:?}: {e}"));
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut screen = ours.try_clone().expect("duplicate a descriptor");
        let sink = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The read fails when the last process has closed the terminal.
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                sink.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend_from_slice(&buffer[..read]);
            }
        });
        Self {
            child,
            keyboard: ours,
            written,
        }
    }

    /// Types keys.
    pub fn send(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("type");
    }

    /// Resizes the window.
    pub fn resize(&self, columns: u16, rows: u16) {
        resize(&self.keyboard, columns, rows);
    }

    /// Returns all output so far, including control sequences.
    pub fn raw(&self) -> String {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).into_owned()
    }

    /// Returns all output so far as text.
    pub fn text(&self) -> String {
        plain(&self.raw())
    }

    /// Returns the last frame of a full-screen program, after the cursor moved to the home position.
    pub fn frame(&self) -> String {
        let raw = self.raw();
        let begin = raw.rfind("\x1b[H").unwrap_or(0);
        // The last frame may be incomplete.
        let whole = raw[begin..].contains("\x1b[J");
        let begin = if whole {
            begin
        } else {
            raw[..begin].rfind("\x1b[H").unwrap_or(0)
        };
        plain(&raw[begin..])
    }

    /// Waits for a condition; panics with the content of the terminal.
    pub fn wait_until(&self, what: &str, limit: Duration, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + limit;
        while !holds(self) {
            assert!(
                Instant::now() < deadline,
                "waited {limit:?} for {what}; the terminal:\n{}",
                self.text()
            );
            std::thread::sleep(POLL);
        }
    }

    /// Waits for a text in the output.
    pub fn wait_for(&self, text: &str, limit: Duration) {
        self.wait_until(text, limit, |terminal| terminal.text().contains(text));
    }

    /// Waits until the program exits.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait for a child") {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "it did not end within {limit:?}; the terminal:\n{}",
                self.text()
            );
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn resize(terminal: &File, columns: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).expect("set the size of the window");
}

/// Removes control sequences (CSI of ECMA-48) and carriage returns.
fn plain(raw: &str) -> String {
    let mut text = String::new();
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' if chars.peek() == Some(&'[') => {
                chars.next();
                while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            '\x1b' | '\r' => {}
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_has_a_terminal_with_keys_and_a_size() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "stty size; read line; echo got $line; sleep 60"]);
        let mut terminal = Terminal::start(&shell, 90, 30);
        let limit = Duration::from_secs(10);
        terminal.wait_for("30 90", limit);
        terminal.send("hello\n");
        terminal.wait_for("got hello", limit);
        terminal.send("\x03");
        assert!(!terminal.wait(limit).success());
    }

    #[test]
    fn control_sequences_are_no_text() {
        assert_eq!(plain("\x1b[1mbold\x1b[0m\r\n\x1b[?25hx"), "bold\nx");
    }
}
