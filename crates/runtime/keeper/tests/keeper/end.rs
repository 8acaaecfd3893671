//! The end of a keeper, and of the directory that it lives in.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use orlop_launch::{Keeper, KeeperSpec, end_keeper, remove_pod_dir};
use orlop_testkit::Starved;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{self, Pod, is_alive};

/// The keepers that were started with a word.
fn keepers(word: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(word) && is_alive(*pid)
    })
    .collect()
}

/// A keeper that stands still in the middle of setting itself up, until the fifo is opened.
fn held_up(dir: &Path) -> KeeperSpec {
    let cgroup = dir.join("cgroup");
    fs::create_dir(&cgroup).unwrap();
    fs::create_dir(dir.join("pod")).unwrap();
    let fifo = cgroup.join("cgroup.procs");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    KeeperSpec {
        program: support::program(),
        pod_id: dir.file_name().unwrap().to_string_lossy().into_owned(),
        dir: dir.join("pod"),
        cgroups: vec![cgroup],
        ..KeeperSpec::default()
    }
}

#[tokio::test]
async fn no_keeper_stays_that_began_while_its_directory_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    let spec = held_up(dir.path());
    let (id, pod) = (spec.pod_id.clone(), spec.dir.clone());
    let spawning = tokio::spawn(Keeper::spawn(spec));
    support::eventually("the keeper to begin", || pod.join("exits").exists()).await;

    let removed = pod.clone();
    let mut removing = tokio::spawn(async move { remove_pod_dir(&removed).await });
    // It does not listen yet, and will.
    let early = tokio::time::timeout(Duration::from_millis(200), &mut removing).await;
    early.expect_err("a keeper was taken for dead that sets itself up");
    fs::read(dir.path().join("cgroup/cgroup.procs")).unwrap();
    removing.await.unwrap().unwrap();
    assert!(!pod.exists());
    assert_eq!(keepers(&id), [0; 0], "somebody stayed");
    // It was told that all is well, or not; in any case it has ended.
    drop(spawning.await);
}

#[tokio::test]
async fn a_keeper_whose_directory_is_gone_does_not_begin() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = held_up(dir.path());
    spec.cgroups.clear();
    let id = spec.pod_id.clone();
    remove_pod_dir(&spec.dir).await.unwrap();
    Keeper::spawn(spec).await.unwrap_err();
    support::eventually("it to end", || keepers(&id).is_empty()).await;
}

#[tokio::test]
async fn a_keeper_that_is_told_to_end_has_ended_then() {
    let pod = Pod::new().await;
    let container = pod.run_script("c1", "sleep 1000").await;
    pod.keeper.end().await.unwrap();
    assert!(pod.keeper.has_ended() && !is_alive(pod.keeper_pid));
    assert!(!is_alive(container));
    // Nobody is there any more.
    pod.keeper.end().await.unwrap();
    end_keeper(&pod.pod_dir()).await.unwrap();
    remove_pod_dir(&pod.pod_dir()).await.unwrap();
    remove_pod_dir(&pod.pod_dir()).await.unwrap();
    assert!(!pod.pod_dir().exists());
}

#[tokio::test]
async fn a_keeper_that_hangs_is_gone_before_its_directory_is() {
    let pod = Pod::new().await;
    let pid = Pid::from_raw(pod.keeper_pid as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    remove_pod_dir(&pod.pod_dir()).await.unwrap();
    assert!(!is_alive(pod.keeper_pid) && !pod.pod_dir().exists());
}

#[tokio::test]
async fn a_keeper_that_hangs_is_found_and_answers_when_it_goes_on() {
    let pod = Pod::new().await;
    let pid = Pid::from_raw(pod.keeper_pid as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let mut found = Keeper::find(&pod.pod_dir()).unwrap();
    found.greet(Duration::from_millis(50)).await.unwrap_err();
    assert!(found.is_connected() && !found.has_ended());
    kill_process(pid, Signal::CONT).unwrap();
    let (keeper, _events) = found.greet(support::LIMIT).await.unwrap();
    assert_eq!(keeper.pid(), pod.keeper_pid);
    assert!(!keeper.has_ended());
}

#[tokio::test]
async fn a_connection_that_breaks_when_its_keeper_is_told_to_end_costs_no_time() {
    let pod = Pod::new().await;
    let (keeper, _events) = Keeper::connect(&pod.pod_dir()).await.unwrap();
    break_connection(pod.keeper_pid);
    assert!(keeper.is_connected(), "nobody has noticed yet");
    let begun = Instant::now();
    keeper.end().await.unwrap();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(pod.keeper.has_ended());
}

/// Lets nothing more be sent to who listens with this number.
#[allow(unsafe_code, reason = "a connection is found among all that is open")]
fn break_connection(listener: u32) {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let numbers = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut broken = 0;
    for number in numbers.collect::<Vec<_>>() {
        // SAFETY: one that is closed meanwhile, as that of the directory is, is no socket.
        let open = unsafe { BorrowedFd::borrow_raw(number) };
        if socket_peercred(open).is_ok_and(|peer| peer.pid.as_raw_pid().unsigned_abs() == listener)
        {
            shutdown(open, Shutdown::Write).unwrap();
            broken += 1;
        }
    }
    assert_eq!(broken, 1);
}

#[tokio::test]
async fn a_keeper_without_descriptors_for_who_connects_takes_no_processor() {
    let pod = Pod::new().await;
    let starved = Starved::new(pod.keeper_pid);
    let dir = pod.pod_dir();
    let mut waiting = std::pin::pin!(Keeper::connect(&dir));
    let early = tokio::time::timeout(Duration::from_secs(1), &mut waiting).await;
    assert!(early.is_err(), "it had a descriptor");
    assert!(starved.share() < 0.1, "{}", starved.share());
    drop(starved);
    waiting.await.unwrap();
}
