//! Commands run in containers.

use std::fs;
use std::io::{PipeReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orlop_launch::{ExecIo, FailureKind, Keeper, TerminalSize};
use orlop_testkit::assert_contains;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::{self, Pod, is_alive};

/// Streams with nothing to read, and where output and errors come out.
fn streams() -> (ExecIo, PipeReader, PipeReader) {
    let null = fs::File::open("/dev/null").unwrap();
    let (out, stdout) = std::io::pipe().unwrap();
    let (err, stderr) = std::io::pipe().unwrap();
    let io = ExecIo::Streams {
        stdin: null.into(),
        stdout: stdout.into(),
        stderr: stderr.into(),
    };
    (io, out, err)
}

#[tokio::test]
async fn output_errors_and_exit_code_come_back() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "sleep 1000").await;
    let (io, out, err) = streams();
    let args = ["sh", "-c", "echo out; echo err >&2; exit 3"];
    let started = pod.exec("e1", "c1", &args, io).await.unwrap();
    assert!(started.pid > 1 && started.terminal.is_none());
    assert_eq!(pod.exec_exit_of("e1").await.code, 3);
    assert_eq!(support::read_to_end(out).await, "out\n");
    assert_eq!(support::read_to_end(err).await, "err\n");

    let listing = pod.keeper.list().await.unwrap();
    assert_eq!(listing.execs[0].exit.as_ref().unwrap().code, 3);
    pod.keeper.forget_exec("e1").await.unwrap();
    assert!(pod.keeper.list().await.unwrap().execs.is_empty());
}

#[tokio::test]
async fn a_missing_command_or_container_is_an_error() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "sleep 1000").await;
    let (io, _out, _err) = streams();
    let error = pod.exec("e1", "c1", &["/no/such"], io).await.unwrap_err();
    assert_eq!(error.failure_kind(), Some(FailureKind::RuntimeFailed));
    assert_contains!(error.to_string().to_lowercase(), "no such file");
    let (io, _out, _err) = streams();
    let error = pod.exec("e1", "c2", &["true"], io).await.unwrap_err();
    assert_eq!(error.failure_kind(), Some(FailureKind::NotFound));

    pod.keeper.kill("c1", 9).await.unwrap();
    pod.exit_of("c1").await;
    let (io, _out, _err) = streams();
    let error = pod.exec("e1", "c1", &["true"], io).await.unwrap_err();
    assert_eq!(error.failure_kind(), Some(FailureKind::WrongState));
}

#[tokio::test]
async fn input_reaches_the_command() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "sleep 1000").await;
    let (stdin, mut ours) = std::io::pipe().unwrap();
    let (out, stdout) = std::io::pipe().unwrap();
    let io = ExecIo::Streams {
        stdin: stdin.into(),
        stdout: stdout.try_clone().unwrap().into(),
        stderr: stdout.into(),
    };
    let done = pod.exec("e1", "c1", &["tr", "a-z", "A-Z"], io).await;
    done.unwrap();
    ours.write_all(b"shout").unwrap();
    drop(ours);
    assert_eq!(pod.exec_exit_of("e1").await.code, 0);
    assert_eq!(support::read_to_end(out).await, "SHOUT");
}

#[tokio::test]
async fn a_terminal_comes_with_its_size() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "sleep 1000").await;
    let size = TerminalSize {
        columns: 91,
        rows: 17,
    };
    let io = ExecIo::Terminal(Some(size));
    let args = ["sh", "-c", "read x; stty size; echo got $x; exit 5"];
    let started = pod.exec("e1", "c1", &args, io).await.unwrap();
    let terminal = started.terminal.unwrap();
    let flags = rustix::fs::fcntl_getfl(&terminal).unwrap();
    rustix::fs::fcntl_setfl(&terminal, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
    let mut terminal = fs::File::from(terminal);
    terminal.write_all(b"typed\n").unwrap();
    let reader = tokio::task::spawn_blocking(move || {
        let mut text = Vec::new();
        // Ends with an input/output error when the last user is gone.
        let _ = terminal.read_to_end(&mut text);
        String::from_utf8(text).unwrap()
    });
    assert_eq!(pod.exec_exit_of("e1").await.code, 5);
    let text = reader.await.unwrap();
    assert!(
        text.contains("17 91\r\n") && text.contains("got typed\r\n"),
        "{text:?}"
    );
}

#[tokio::test]
async fn killing_takes_the_whole_tree_and_nothing_else() {
    let mut pod = Pod::new().await;
    let container = pod.run_script("c1", "sleep 1000 & wait").await;
    let (io, out, _err) = streams();
    // A child, a grandchild, an orphan, and a child in a session of its own.
    let script = "sleep 2001 & (sleep 2002 & wait) & (sleep 2003 &) ; setsid sleep 2004 & \
                  echo ready; wait";
    let started = pod.exec("e1", "c1", &["sh", "-c", script], io).await;
    let started = started.unwrap();
    let (io, _out, _err) = streams();
    let other = pod.exec("e2", "c1", &["sleep", "2005"], io).await.unwrap();
    let sleepers = || arguments_in(container);
    let all = ["1000", "2001", "2002", "2003", "2004", "2005"];
    support::eventually("all to sleep", || sleepers() == all).await;

    pod.keeper.kill_exec("e1", 9).await.unwrap();
    let status = pod.exec_exit_of("e1").await;
    assert_eq!((status.code, status.signal), (137, 9));
    support::eventually("only the others to sleep", || {
        sleepers() == ["1000", "2005"]
    })
    .await;
    assert!(is_alive(other.pid) && is_alive(container) && !is_alive(started.pid));
    // The pipe has no other holders left.
    assert_eq!(support::read_to_end(out).await, "ready\n");
    pod.keeper.kill_exec("e1", 9).await.unwrap();
    assert!(is_alive(other.pid));
}

#[tokio::test]
async fn a_command_that_was_started_too_late_is_ended() {
    let pod = Pod::new().await;
    let container = pod.run_script("c1", "sleep 1000 & wait").await;
    let slow = pod.slow_runtime("0.4");
    let running = |command| pod.keeper.exec(&slow, command, Duration::from_secs(1));
    let (io, _out, _err) = streams();
    let command = pod.command_with("e1", "c1", &["sleep", "2006"], io);
    let (started, ()) = tokio::join!(
        running(command),
        pod.stopped_for_long(Duration::from_millis(300))
    );
    let error = started.unwrap_err();
    assert_eq!(error.failure_kind(), Some(FailureKind::TimedOut), "{error}");
    support::eventually("it to have ended", || arguments_in(container) == ["1000"]).await;
    let listed = pod.keeper.list().await.unwrap().execs;
    assert!(listed.iter().all(|exec| exec.exit.is_some()), "{listed:?}");
}

#[tokio::test]
async fn a_command_whose_daemon_has_gone_while_it_was_started_is_ended() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "sleep 1000").await;
    let slow = pod.slow_runtime("0.6");
    let (io, out, _err) = streams();
    let command = pod.command_with("e1", "c1", &["sleep", "2007"], io);
    let (daemon, events) = Keeper::connect(&pod.pod_dir()).await.unwrap();
    {
        let running = daemon.exec(&slow, command, support::LIMIT);
        let early = tokio::time::timeout(Duration::from_millis(300), running).await;
        assert!(early.is_err(), "it was started at once");
    }
    drop((daemon, events));
    assert_eq!(pod.exec_exit_of("e1").await.signal, 9);
    assert_eq!(support::read_to_end(out).await, "");
}

#[tokio::test]
async fn nothing_gets_away_by_forking_while_it_is_killed() {
    let mut pod = Pod::new().await;
    let container = pod.run_script("c1", "sleep 1000 & wait").await;
    for round in 0..10 {
        let id = format!("e{round}");
        let (io, _out, _err) = streams();
        // Four that fork without end: one of them does so at any moment.
        let script = "f() { while :; do sleep 5001 & done; }; f & f & f & f";
        let done = pod.exec(&id, "c1", &["sh", "-c", script], io).await;
        done.unwrap();
        tokio::time::sleep(Duration::from_millis(5 + 3 * round)).await;
        pod.keeper.kill_exec(&id, 9).await.unwrap();
        assert_eq!(pod.exec_exit_of(&id).await.signal, 9);
        support::eventually("nothing to be left", || arguments_in(container) == ["1000"]).await;
    }
}

#[tokio::test]
async fn thousands_of_processes_of_others_do_not_hold_up_a_kill() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "sleep 1000").await;
    let quiet = quickest_kill(&mut pod, "quiet").await;
    let chain = Chain::of(2000);
    let crowded = quickest_kill(&mut pod, "crowded").await;
    drop(chain);
    let limit = quiet * 2 + Duration::from_millis(20);
    assert!(crowded < limit, "{crowded:?} instead of {quiet:?}");
}

/// How long the quickest of five kills of a command takes.
async fn quickest_kill(pod: &mut Pod, name: &str) -> Duration {
    let mut quickest = support::LIMIT;
    for round in 0..5 {
        let id = format!("{name}-{round}");
        let (io, _out, _err) = streams();
        pod.exec(&id, "c1", &["sleep", "1000"], io).await.unwrap();
        let begin = Instant::now();
        pod.keeper.kill_exec(&id, 9).await.unwrap();
        quickest = quickest.min(begin.elapsed());
        assert_eq!(pod.exec_exit_of(&id).await.signal, 9);
    }
    quickest
}

/// Processes that are none of a pod's, each the child of the one before. They end when it is dropped.
struct Chain(Child);

impl Chain {
    fn of(count: u32) -> Self {
        let script =
            "[ $0 = 0 ] && echo all && exec sleep 1000; sh -c \"$1\" $(($0 - 1)) \"$1\"; :";
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "sh", "-c", script]);
        let command = command.args([&count.to_string(), script]);
        let mut chain = Self(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut told = [0; 4];
        let stdout = chain.0.stdout.as_mut().unwrap();
        stdout.read_exact(&mut told).unwrap();
        chain
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_command_with_more_processes_than_the_keeper_may_open_files_is_killed_whole() {
    let mut pod = Pod::new().await;
    let container = pod.run_script("c1", "sleep 1000 & wait").await;
    let (io, _out, _err) = streams();
    let script = "for n in $(seq 100); do sleep 6001 & done; wait";
    let command = ["sh", "-c", script];
    pod.exec("e1", "c1", &command, io).await.unwrap();
    support::eventually("all to sleep", || arguments_in(container).len() == 101).await;
    let few = Rlimit {
        current: Some(40),
        maximum: Some(40),
    };
    let keeper = Pid::from_raw(pod.keeper_pid.cast_signed());
    prlimit(keeper, Resource::Nofile, few).unwrap();
    pod.keeper.kill_exec("e1", 9).await.unwrap();
    assert_eq!(pod.exec_exit_of("e1").await.signal, 9);
    support::eventually("nothing to be left", || arguments_in(container) == ["1000"]).await;
}

#[tokio::test]
async fn what_a_finished_command_left_behind_can_be_killed() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "sleep 1000").await;
    let (io, out, _err) = streams();
    let args = ["sh", "-c", "sleep 3001 & echo $!"];
    pod.exec("e1", "c1", &args, io).await.unwrap();
    assert_eq!(pod.exec_exit_of("e1").await.code, 0);
    tokio::time::sleep(Duration::from_millis(50)).await;
    pod.keeper.kill_exec("e1", 9).await.unwrap();
    // Ends only once the sleeper, which holds the pipe, is gone.
    assert!(!support::read_to_end(out).await.is_empty());
}

#[tokio::test]
async fn many_at_once_end_as_each_of_them_did() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "sleep 1000").await;
    let started = async {
        let mut all = tokio::task::JoinSet::new();
        for code in 0..16 {
            let (keeper, runtime) = (pod.keeper.clone(), pod.runtime.clone());
            let command = pod.command(
                &format!("e{code}"),
                "c1",
                &["sh", "-c", &format!("exit {code}")],
            );
            all.spawn(async move {
                keeper
                    .exec(&runtime, command, support::LIMIT)
                    .await
                    .unwrap()
            });
        }
        all.join_all().await
    };
    let started = started.await;
    let mut codes = Vec::new();
    while codes.len() < started.len() {
        if let orlop_launch::KeeperEvent::ExecExited(exited) = pod.event().await {
            let name: u32 = exited.exec.trim_start_matches('e').parse().unwrap();
            assert_eq!(exited.status.code, name);
            codes.push(name);
        }
    }
    codes.sort_unstable();
    assert_eq!(codes, (0..16).collect::<Vec<u32>>());
    assert!(started.iter().all(|exec| !is_alive(exec.pid)));
}

/// What all `sleep`s in a container were told, in alphabetical order.
fn arguments_in(container: u32) -> Vec<String> {
    let of_container = fs::read_link(format!("/proc/{container}/ns/pid")).unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let ns = fs::read_link(entry.path().join("ns/pid"));
        ns.is_ok_and(|ns| ns == of_container)
    });
    let mut found: Vec<String> = processes
        .filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok())
        .filter_map(|line| {
            Some(
                line.split_once("sleep\0")?
                    .1
                    .trim_end_matches('\0')
                    .to_owned(),
            )
        })
        .collect();
    found.sort();
    found
}
