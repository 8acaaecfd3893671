//! Removes resources of a runtime after a test has failed or was killed.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Once;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::leaks::{self, Leak};
use crate::machine;
use crate::scratch::{Scratch, unmount_below};

/// Kills every process, unmounts every mount and removes every cgroup with the test's name.
pub(super) fn end_all(scratch: &Scratch) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let running = leaks::processes(scratch.id(), &[]);
        if running.is_empty() || Instant::now() > deadline {
            break;
        }
        for leak in running {
            // The name is random and unique, so every match belongs to this test.
            if let Leak::Process(pid, _) = leak
                && let Some(pid) = Pid::from_raw(pid as i32)
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    for dir in [scratch.run(), scratch.dir()] {
        unmount_below(dir);
    }
    unmount_named_netns(scratch);
    remove_cgroups(scratch, deadline);
}

/// Removes resources of tests that were killed before they could clean up.
pub(super) fn sweep_abandoned() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for scratch in Scratch::abandoned() {
            eprintln!(
                "testkit: taking away what the killed test {} left",
                scratch.id()
            );
            end_all(&scratch);
            remove_links(&scratch);
        }
    });
}

/// Removes the bridge with the test's name; the pods' interfaces were removed with their namespaces.
pub(super) fn remove_links(scratch: &Scratch) {
    if !PathBuf::from("/sys/class/net").join(scratch.id()).exists() {
        return;
    }
    if let Ok(ip) = machine::program("ip") {
        let _ = Command::new(ip)
            .args(["link", "delete", scratch.id()])
            .output();
    }
}

fn unmount_named_netns(scratch: &Scratch) {
    for leak in leaks::find(scratch.id(), &[]) {
        if let Leak::Netns(path) = leak {
            unmount_below(&path);
            let _ = std::fs::remove_file(path);
        }
    }
}

fn remove_cgroups(scratch: &Scratch, deadline: Instant) {
    loop {
        let mut left = false;
        for dir in leaks::cgroups(scratch.id()).into_iter().rev() {
            left |= std::fs::remove_dir(dir).is_err();
        }
        if !left || Instant::now() > deadline {
            break;
        }
        // A killed process counts until it is reaped.
        std::thread::sleep(Duration::from_millis(10));
    }
}
