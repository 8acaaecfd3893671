//! The processes of chromedriver, which end with the test in every case.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::machine;
use crate::scratch::Scratch;

const START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
/// Number of ports to try.
const PORTS: usize = 20;

/// Shell script that starts the driver and waits for the end of its own input, which is the end of the test process.
/// Then it removes everything: the driver's process group, processes with the name in their command line, and the
/// directories.
const WATCHER: &str = r#"
setsid "$DRIVER" --port=0 --log-path="$DIR/commands.log" > "$DIR/said.log" 2>&1 < /dev/null &
group=$!
read -r _
kill -KILL "-$group" "$group"
tries=0
while [ $((tries += 1)) -lt 50 ]; do
    left=$(printf '%s\n' "$NAME" | grep -lsaFf - /proc/[0-9]*/cmdline)
    [ -n "$left" ] || break
    for file in $left; do
        pid=${file#/proc/}
        kill -KILL "${pid%/cmdline}"
    done
    sleep 0.05
done
tries=0
until rm -rf -- "$DIR" "$RUN" || [ $((tries += 1)) -gt 20 ]; do sleep 0.1; done
"#;

/// A running driver, with the directories of its browser.
#[derive(Debug)]
pub(super) struct DriverProcess {
    watcher: Child,
    address: SocketAddr,
    // Dropped after the process.
    scratch: Scratch,
}

/// Checks whether both programs are installed.
pub(super) fn can_run() -> Result<(), String> {
    machine::has_program("chromedriver")?;
    machine::has_program("chromium")
}

impl DriverProcess {
    /// Starts the driver on a free loopback port.
    pub(super) fn start() -> Self {
        // The driver chooses a port that is free for IPv6, and exits if the same IPv4 port is taken.
        for _ in 0..PORTS {
            let mut process = Self::launch();
            if let Ok(port) = process.port() {
                process.address.set_port(port);
                return process;
            }
        }
        panic!("chromedriver found no free port in {PORTS} tries");
    }

    fn launch() -> Self {
        let program = machine::program("chromedriver").unwrap_or_else(|e| panic!("{e}"));
        let scratch = Scratch::new();
        let place = scratch.subdir("home");
        let watcher = Command::new("sh")
            .args(["-c", WATCHER])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("HOME", &place)
            .env("XDG_CONFIG_HOME", &place)
            .env("XDG_CACHE_HOME", &place)
            .env("TMPDIR", scratch.subdir("tmp"))
            .env("DRIVER", program)
            .env("NAME", scratch.id())
            .env("DIR", scratch.dir())
            .env("RUN", scratch.run())
            .current_dir("/")
            // A signal to the process group of the test must not reach the watcher, which cleans up after it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start sh");
        Self {
            watcher,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            scratch,
        }
    }

    /// Waits for the port of the driver, or for the error that it is taken.
    fn port(&self) -> Result<u16, PortTaken> {
        let deadline = Instant::now() + START_LIMIT * machine::patience();
        loop {
            let log = self.log();
            if let Some(told) = port_in(&log) {
                return told;
            }
            assert!(
                Instant::now() < deadline,
                "chromedriver did not name its port; its log:\n{log}"
            );
            std::thread::sleep(POLL);
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the profile directory of the browser.
    pub(super) fn profile(&self) -> PathBuf {
        self.scratch.path("profile")
    }

    /// Returns the name in the command lines of its processes, and its directories.
    #[cfg(test)]
    pub(super) fn traces(&self) -> (String, [PathBuf; 2]) {
        let dirs = [self.scratch.dir(), self.scratch.run()].map(PathBuf::from);
        (self.scratch.id().to_owned(), dirs)
    }

    /// Returns the output of driver and browser.
    pub(super) fn log(&self) -> String {
        let logs = ["said.log", "commands.log"].map(|name| {
            let said = std::fs::read(self.scratch.path(name)).unwrap_or_default();
            String::from_utf8_lossy(&said).into_owned()
        });
        logs.concat()
    }
}

impl Drop for DriverProcess {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let deadline = Instant::now() + END_LIMIT * machine::patience();
        while let Ok(None) = self.watcher.try_wait() {
            if Instant::now() > deadline {
                eprintln!("testkit: the browser {} does not end", self.scratch.id());
                let _ = self.watcher.kill();
                let _ = self.watcher.wait();
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Another process uses the port.
#[derive(Debug, PartialEq, Eq)]
struct PortTaken;

/// Finds the port, or the error, in the driver's output.
fn port_in(log: &str) -> Option<Result<u16, PortTaken>> {
    if log.contains("port not available") {
        return Some(Err(PortTaken));
    }
    let rest = log.split("started successfully on port ").nth(1)?;
    rest.split_once('.')?.0.parse().ok().map(Ok)
}

#[cfg(test)]
mod tests {
    use super::{PortTaken, port_in};

    #[test]
    fn a_port_is_told_or_taken() {
        let head =
            "Starting ChromeDriver 156.0.8078.108 (73f-refs/branch-heads/8078@{#2244}) on port 0\n";
        let said = |line: &str| port_in(&format!("{head}{line}"));
        assert_eq!(said(""), None);
        assert_eq!(
            said("ChromeDriver was started successfully on port 402"),
            None
        );
        let whole = "ChromeDriver was started successfully on port 40235.\n";
        assert_eq!(said(whole), Some(Ok(40235)));
        assert_eq!(
            said("IPv4 port not available. Exiting...\n"),
            Some(Err(PortTaken))
        );
    }
}
