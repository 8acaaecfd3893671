//! A container's life: how it begins and how it ends.

use std::fs;
use std::time::{Duration, Instant};

use orlop_launch::{
    ContainerState, Error, FailureKind, Keeper, KeeperEvent, OciRuntime, RuntimeFault, StartBy,
    recorded_exit,
};
use orlop_testkit::assert_contains;
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, prlimit};
use serde_json::json;

use crate::support::{self, LIMIT, Pod, cgroup_roots, fake_runtime, is_alive};

#[tokio::test]
async fn exit_code_is_reported_recorded_and_listed() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "exit 42").await;
    let status = pod.exit_of("c1").await;
    assert_eq!((status.code, status.signal, status.oom), (42, 0, false));
    let recorded = recorded_exit(&pod.pod_dir(), "c1").unwrap();
    assert_eq!(recorded, Some(status.clone()));
    let listing = pod.keeper.list().await.unwrap();
    assert_eq!(listing.containers[0].state, ContainerState::Exited);
    assert_eq!(listing.containers[0].exit, Some(status.clone()));
    assert!(listing.containers[0].started_ns <= status.time_ns);

    pod.delete("c1").await;
    assert!(pod.keeper.list().await.unwrap().containers.is_empty());
    assert_eq!(recorded_exit(&pod.pod_dir(), "c1").unwrap(), None);
    // Again, and for one that never was.
    pod.delete("c1").await;
}

#[tokio::test]
async fn a_signal_ends_a_container_with_128_and_its_number() {
    let mut pod = Pod::new().await;
    let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    pod.run_script("polite", script).await;
    pod.wait_for_log("polite", "ready").await;
    pod.keeper.kill("polite", 15).await.unwrap();
    assert_eq!(pod.exit_of("polite").await.code, 7);

    let script = "trap '' TERM; echo ready; sleep 1000";
    let pid = pod.run_script("stubborn", script).await;
    pod.wait_for_log("stubborn", "ready").await;
    pod.keeper.kill("stubborn", 15).await.unwrap();
    assert!(is_alive(pid));
    pod.keeper.kill("stubborn", 9).await.unwrap();
    let status = pod.exit_of("stubborn").await;
    assert_eq!((status.code, status.signal), (137, 9));
    assert!(!is_alive(pid));
    pod.keeper.kill("stubborn", 9).await.unwrap();

    // The first real-time one of containers is not that of every C library.
    let script = "trap 'exit 8' 34; echo ready; while :; do sleep 0.05; done";
    pod.run_script("real-time", script).await;
    pod.wait_for_log("real-time", "ready").await;
    pod.keeper.kill("real-time", 34).await.unwrap();
    assert_eq!(pod.exit_of("real-time").await.code, 8);

    let pid = pod.run_script("forced", "sleep 1000").await;
    pod.keeper
        .kill_by_runtime(
            &pod.runtime,
            "forced",
            &pod.bundle("forced"),
            9,
            true,
            LIMIT,
        )
        .await
        .unwrap();
    assert_eq!(pod.exit_of("forced").await.code, 137);
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_container_is_started_alike_by_the_keeper_and_by_its_runtime() {
    let mut pod = Pod::new().await;
    for (by, id) in [(StartBy::Keeper, "c1"), (StartBy::Runtime, "c2")] {
        pod.create(&pod.script(id, "echo on its way; sleep 1000"))
            .await
            .unwrap();
        assert!(!pod.log_path(id).exists() || pod.logged(id).is_empty());
        pod.start_by(by, id).await.unwrap();
        pod.wait_for_log(id, "on its way").await;
        let state = pod.runtime.state(id, LIMIT).await.unwrap();
        assert_eq!(state.status, "running", "in the runtime's own eyes");
        let started = pod.keeper.list().await.unwrap().containers;
        assert!(started.iter().all(|it| it.state == ContainerState::Running));
        pod.keeper.kill(id, 9).await.unwrap();
        assert_eq!(pod.exit_of(id).await.code, 137);
        pod.delete(id).await;
    }
    // One that has ended before its start is told of is told of all the same.
    pod.create(&pod.script("c3", "true")).await.unwrap();
    pod.start("c3").await.unwrap();
    assert_eq!(pod.exit_of("c3").await.code, 0);
}

#[tokio::test]
async fn a_container_that_starts_at_once_is_let_go_as_soon_as_it_is_made() {
    let mut pod = Pod::new().await;
    let mut wish = pod.script("c1", "echo on its way; sleep 1000");
    wish.create.starts = true;
    Pod::write_bundle(&wish);
    let creating = pod.keeper.create(&pod.runtime, &wish.create, LIMIT);
    let created = creating.await.unwrap();
    assert!(created.started_ns >= created.created_ns, "{created:?}");
    let listed = pod.keeper.list().await.unwrap().containers.remove(0);
    assert_eq!(listed.state, ContainerState::Running);
    assert_eq!(listed.started_ns, created.started_ns);
    pod.wait_for_log("c1", "on its way").await;
    let state = pod.runtime.state("c1", LIMIT).await.unwrap();
    assert_eq!(state.status, "running", "in the runtime's own eyes");
    let again = pod.start("c1").await.unwrap_err();
    assert!(again.to_string().contains("is Running"), "{again}");
    pod.keeper.kill("c1", 9).await.unwrap();
    assert_eq!(pod.exit_of("c1").await.code, 137);
    pod.delete("c1").await;

    // Where it is not known what a container of the runtime's waits for, it waits.
    pod.runtime.state_as_runc = false;
    let mut wish = pod.script("c2", "echo on its way");
    wish.create.starts = true;
    Pod::write_bundle(&wish);
    let creating = pod.keeper.create(&pod.runtime, &wish.create, LIMIT);
    assert_eq!(creating.await.unwrap().started_ns, 0);
    pod.start("c2").await.unwrap();
    assert_eq!(pod.exit_of("c2").await.code, 0);
    assert_eq!(pod.logged("c2"), "on its way\n");
}

#[tokio::test]
async fn a_container_whose_daemon_has_gone_while_it_was_made_waits() {
    let pod = Pod::new().await;
    let mut wish = pod.script("c1", "echo on its way; sleep 1000");
    wish.create.starts = true;
    Pod::write_bundle(&wish);
    let slow = pod.slow_runtime("1");
    let dir = pod.pod_dir();
    let (daemon, events) = Keeper::connect(&dir).await.unwrap();
    {
        let creating = daemon.create(&slow, &wish.create, LIMIT);
        let early = tokio::time::timeout(Duration::from_millis(300), creating).await;
        assert!(early.is_err(), "it was made at once");
    }
    drop((daemon, events));
    let mut seen = ContainerState::Absent;
    for _ in 0..100 {
        let listed = pod.keeper.list().await.unwrap().containers.remove(0);
        seen = listed.state;
        if listed.pid != 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(seen, ContainerState::Created);
    assert!(!pod.log_path("c1").exists() || pod.logged("c1").is_empty());
    pod.start("c1").await.unwrap();
    pod.wait_for_log("c1", "on its way").await;
}

#[tokio::test]
async fn a_container_that_was_made_while_its_keeper_was_stopped_for_too_long_is_not_let_go() {
    let pod = Pod::new().await;
    let mut wish = pod.script("c1", "echo on its way; sleep 1000");
    wish.create.starts = true;
    Pod::write_bundle(&wish);
    let slow = pod.slow_runtime("0.4");
    let creating = async {
        let limit = Duration::from_secs(1);
        pod.keeper.create(&slow, &wish.create, limit).await
    };
    let (created, ()) = tokio::join!(creating, pod.stopped_for_long(Duration::from_millis(300)));
    let error = created.unwrap_err();
    assert_eq!(error.failure_kind(), Some(FailureKind::TimedOut), "{error}");
    for listed in pod.keeper.list().await.unwrap().containers {
        assert_eq!(listed.state, ContainerState::Created);
    }
    assert!(!pod.log_path("c1").exists() || pod.logged("c1").is_empty());
    pod.delete("c1").await;
}

#[tokio::test]
async fn a_container_that_was_started_while_its_keeper_was_stopped_for_too_long_is_ended() {
    let mut pod = Pod::new().await;
    let wish = pod.script("c1", "sleep 1000");
    pod.create(&wish).await.unwrap();
    let slow = pod.slow_runtime("0.4");
    let starting = async {
        let (bundle, limit) = (&wish.create.bundle, Duration::from_secs(1));
        let by = StartBy::Runtime;
        pod.keeper.start(&slow, "c1", bundle, by, limit).await
    };
    let (started, ()) = tokio::join!(starting, pod.stopped_for_long(Duration::from_millis(300)));
    let error = started.unwrap_err();
    assert_eq!(error.failure_kind(), Some(FailureKind::TimedOut), "{error}");
    assert_eq!(pod.exit_of("c1").await.code, 137);
    pod.delete("c1").await;
}

/// Nobody may wait for it any more.
#[tokio::test]
async fn what_a_keeper_that_was_held_up_finds_done_after_its_time_has_failed() {
    let mut pod = Pod::new().await;
    let wish = pod.script("c1", "sleep 1000");
    pod.create(&wish).await.unwrap();
    // Reading their logs takes until somebody writes there.
    let holding = |name: &str, before: &str, seconds: &str| {
        let script = format!(
            "while [ \"$1\" != --log ]; do shift; done; rm -f \"$2\"; mkfifo \"$2\"\n\
             (sleep {seconds}; : > \"$2\") > /dev/null 2>&1 &\n\
             sleep {before}; echo no; exit 1"
        );
        fake_runtime(pod.dir.path(), name, &script)
    };
    // Both calls have ended when the keeper, held up a first time, looks again, and it sees to this one first.
    let (first, second) = (
        holding("first", "0", "0.8"),
        holding("second", "0.3", "1.7"),
    );
    let slow = pod.slow_runtime("0.4");
    let bundle = &wish.create.bundle;
    let hold = async |by: &OciRuntime, after| {
        let dir = pod.bundle(&format!("{}-log", by.name));
        fs::create_dir(&dir).unwrap();
        tokio::time::sleep(Duration::from_millis(after)).await;
        let killing = pod.keeper.kill_by_runtime(by, "c1", &dir, 9, false, LIMIT);
        killing.await.unwrap_err();
    };
    let starting = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let limit = Duration::from_millis(1200);
        let by = StartBy::Runtime;
        pod.keeper.start(&slow, "c1", bundle, by, limit).await
    };
    let ((), started, ()) = tokio::join!(hold(&second, 0), starting, hold(&first, 100));
    let error = started.unwrap_err();
    assert_eq!(error.failure_kind(), Some(FailureKind::TimedOut), "{error}");
    assert_eq!(pod.exit_of("c1").await.code, 137);
}

/// A daemon that came after the one that had asked for the start has it for running.
#[tokio::test]
async fn a_container_that_was_started_too_late_for_a_daemon_that_has_gone_runs_on() {
    let pod = Pod::new().await;
    let wish = pod.script("c1", "echo on its way; sleep 1000");
    pod.create(&wish).await.unwrap();
    start_and_leave(&pod, &wish, "0.6").await;
    let listed = pod.keeper.list().await.unwrap().containers.remove(0);
    assert_ne!(listed.started_ns, 0, "it is not said to be started");
    pod.stopped_for_long(Duration::ZERO).await;
    pod.wait_for_log("c1", "on its way").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let listed = pod.keeper.list().await.unwrap().containers.remove(0);
    assert_eq!(listed.state, ContainerState::Running);
    assert!(is_alive(listed.pid));
}

/// It would wait for ever, and the next daemon has it for running.
#[tokio::test]
async fn a_container_that_could_not_be_started_for_a_daemon_that_has_gone_is_ended() {
    let mut pod = Pod::new().await;
    let wish = pod.script("c1", "echo on its way; sleep 1000");
    let pid = pod.create(&wish).await.unwrap();
    start_and_leave(&pod, &wish, "1000").await;
    let listed = pod.keeper.list().await.unwrap().containers.remove(0);
    assert_ne!(listed.started_ns, 0, "it is not said to be started");
    assert_eq!(pod.exit_of("c1").await.code, 137);
    assert!(!is_alive(pid));
    assert_eq!(pod.logged("c1"), "");
}

/// Starts a container within a second, by a runtime that takes so many seconds longer and a daemon that goes away
/// meanwhile.
async fn start_and_leave(pod: &Pod, wish: &support::Wish, seconds: &str) {
    let slow = pod.slow_runtime(seconds);
    let (daemon, events) = Keeper::connect(&pod.pod_dir()).await.unwrap();
    let (bundle, limit) = (&wish.create.bundle, Duration::from_secs(1));
    let starting = daemon.start(&slow, "c1", bundle, StartBy::Runtime, limit);
    let early = tokio::time::timeout(Duration::from_millis(300), starting).await;
    assert!(early.is_err(), "it was started at once");
    drop((daemon, events));
}

#[tokio::test]
async fn what_a_stopped_keeper_is_asked_for_is_not_done_when_nobody_waits_for_it_any_more() {
    let pod = Pod::new().await;
    let limit = Duration::from_secs(1);
    let wish = pod.script("c1", "echo on its way; sleep 1000");
    pod.create(&wish).await.unwrap();
    for by in [StartBy::Keeper, StartBy::Runtime] {
        kill_process(pod.keeper_process(), Signal::STOP).unwrap();
        let bundle = &wish.create.bundle;
        let starting = pod.keeper.start(&pod.runtime, "c1", bundle, by, limit);
        let (started, ()) = tokio::join!(starting, pod.stopped_for_long(Duration::ZERO));
        let error = started.unwrap_err();
        assert_eq!(error.failure_kind(), Some(FailureKind::TimedOut), "{error}");
    }
    let mut late = pod.script("c2", "echo on its way; sleep 1000");
    late.create.starts = true;
    Pod::write_bundle(&late);
    kill_process(pod.keeper_process(), Signal::STOP).unwrap();
    let creating = pod.keeper.create(&pod.runtime, &late.create, limit);
    let (created, ()) = tokio::join!(creating, pod.stopped_for_long(Duration::ZERO));
    let error = created.unwrap_err();
    assert_eq!(error.failure_kind(), Some(FailureKind::TimedOut), "{error}");
    let listed = pod.keeper.list().await.unwrap().containers;
    let states: Vec<_> = listed.iter().map(|it| (&*it.id, it.state)).collect();
    assert_eq!(states, [("c1", ContainerState::Created)]);
    pod.start("c1").await.unwrap();
    pod.wait_for_log("c1", "on its way").await;
}

#[tokio::test]
async fn a_start_waits_for_nothing_that_its_process_does() {
    let mut pod = Pod::new().await;
    // Stopped, neither can take note of anything: one is killed, the other goes on later than it may take.
    for (id, signal, code, log) in [("killed", 9, 137, ""), ("late", 18, 0, "ran\n")] {
        let pid = pod.create(&pod.script(id, "echo ran")).await.unwrap();
        pod.keeper.kill(id, 19).await.unwrap();
        let (by, bundle) = (StartBy::Keeper, pod.bundle(id));
        let limit = Duration::from_millis(300);
        let started = pod.keeper.start(&pod.runtime, id, &bundle, by, limit).await;
        started.unwrap();
        tokio::time::sleep(2 * limit).await;
        assert!(is_alive(pid));
        pod.keeper.kill(id, signal).await.unwrap();
        assert_eq!(pod.exit_of(id).await.code, code, "{id}");
        assert_eq!(pod.logged(id), log, "{id}");
        pod.delete(id).await;
    }
}

#[tokio::test]
async fn deleting_a_running_container_kills_it() {
    let pod = Pod::new().await;
    let pid = pod.run_script("c1", "sleep 1000").await;
    pod.delete("c1").await;
    assert!(!is_alive(pid));
    assert!(pod.keeper.list().await.unwrap().containers.is_empty());
}

#[tokio::test]
async fn a_deleted_container_s_last_words_are_in_its_log() {
    let pod = Pod::new().await;
    let script = "trap 'head -c 500000 /dev/zero | tr \"\\0\" x; printf end; exit' TERM; echo ready; \
                  while :; do sleep 0.02; done";
    pod.run_script("c1", script).await;
    pod.wait_for_log("c1", "ready").await;
    pod.keeper.kill("c1", 15).await.unwrap();
    support::eventually("the container to end", || {
        recorded_exit(&pod.pod_dir(), "c1").unwrap().is_some()
    })
    .await;
    pod.delete("c1").await;
    support::eventually("the last words", || {
        let log = fs::read(pod.log_path("c1")).unwrap();
        log.ends_with(b"end\n")
    })
    .await;
    let length: usize = pod.log("c1").iter().map(|line| line.2.len()).sum();
    assert_eq!(length, "ready".len() + 500_000 + "end".len());
}

#[tokio::test]
async fn what_is_out_of_order_is_refused_and_does_no_harm() {
    let pod = Pod::new().await;
    let kind = |error: Error| error.failure_kind().unwrap();
    let unknown = pod.start("nobody").await.unwrap_err();
    assert_eq!(kind(unknown), FailureKind::NotFound);
    assert_eq!(
        kind(pod.keeper.kill("nobody", 9).await.unwrap_err()),
        FailureKind::NotFound
    );

    pod.run_script("c1", "sleep 1000").await;
    assert_eq!(
        kind(pod.start("c1").await.unwrap_err()),
        FailureKind::WrongState
    );
    let again = pod.create(&pod.script("c1", "true")).await.unwrap_err();
    assert_eq!(kind(again), FailureKind::Exists);
    assert_eq!(
        kind(pod.keeper.forget("c1").await.unwrap_err()),
        FailureKind::WrongState
    );
    let mut wish = pod.script("c2", "true");
    wish.create.id = "../c2".into();
    assert_eq!(
        kind(pod.create(&wish).await.unwrap_err()),
        FailureKind::Invalid
    );
    let bad = pod.keeper.kill("c1", 4711).await.unwrap_err();
    assert_eq!(kind(bad), FailureKind::Invalid);
    assert_eq!(pod.keeper.list().await.unwrap().containers.len(), 1);
}

#[tokio::test]
async fn a_missing_command_fails_in_the_runtime_s_words() {
    let pod = Pod::new().await;
    let mut wish = pod.script("c1", "");
    wish.config["process"]["args"] = json!(["/no/such/program"]);
    let error = pod.create(&wish).await.unwrap_err();
    assert_eq!(error.failure_kind(), Some(FailureKind::RuntimeFailed));
    let text = error.to_string();
    assert!(
        text.contains("/no/such/program") && text.to_lowercase().contains("no such file"),
        "{text}"
    );
    assert!(pod.keeper.list().await.unwrap().containers.is_empty());
    // Nothing of the attempt is in the way of the next.
    pod.delete("c1").await;
    pod.run(&pod.script("c1", "sleep 1000")).await;
}

#[tokio::test]
async fn bad_runtimes_give_errors_that_say_what_they_did() {
    let pod = Pod::new().await;
    let dir = pod.dir.path();
    let wish = pod.script("c1", "true");
    Pod::write_bundle(&wish);
    let create = async |runtime: &OciRuntime, limit| {
        let result = pod.keeper.create(runtime, &wish.create, limit).await;
        let Err(Error::Runtime(error)) = result else {
            panic!("{result:?}");
        };
        assert_eq!(
            (error.runtime.as_str(), error.action.as_str()),
            (runtime.name.as_str(), "create")
        );
        (error.fault, error.detail)
    };

    let missing = OciRuntime::new("missing", dir.join("nowhere"), dir);
    let (fault, detail) = create(&missing, LIMIT).await;
    assert_eq!(fault, RuntimeFault::Missing);
    assert!(detail.contains("nowhere"), "{detail}");

    let crashing = fake_runtime(dir, "crashing", "echo going down >&2; kill -SEGV $$");
    let (fault, detail) = create(&crashing, LIMIT).await;
    assert_eq!(
        (fault, detail.as_str()),
        (RuntimeFault::Failed, "going down")
    );

    let silent = fake_runtime(dir, "silent", "kill -SEGV $$");
    let (_, detail) = create(&silent, LIMIT).await;
    assert_eq!(detail, "it was killed by signal 11");

    let babbling = fake_runtime(
        dir,
        "babbling",
        "head -c 3000000 /dev/zero; echo; echo enough; exit 3",
    );
    let (_, detail) = create(&babbling, LIMIT).await;
    assert_eq!(detail, "enough");

    let lying = fake_runtime(dir, "lying", "exit 0");
    let (fault, detail) = create(&lying, LIMIT).await;
    assert_eq!(fault, RuntimeFault::Failed);
    assert!(detail.contains("process ID"), "{detail}");

    let script = r#"while [ "$1" != --pid-file ]; do shift; done; echo 1234567 > "$2""#;
    let strange = fake_runtime(dir, "strange", script);
    let (_, detail) = create(&strange, LIMIT).await;
    assert_contains!(
        detail,
        "1234567 of the runtime is not a child of the keeper"
    );

    let hanging = fake_runtime(dir, "hanging", "echo still here >&2; sleep 1000");
    let begin = Instant::now();
    let (fault, detail) = create(&hanging, Duration::from_millis(300)).await;
    assert_eq!(fault, RuntimeFault::TimedOut);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(detail.contains("300 ms"), "{detail}");

    support::eventually("the hanging runtime to be gone", || {
        let children = format!("/proc/{0}/task/{0}/children", pod.keeper_pid);
        fs::read_to_string(children).unwrap().is_empty()
    })
    .await;
    assert!(pod.keeper.list().await.unwrap().containers.is_empty());
}

#[tokio::test]
async fn a_runtime_that_cannot_be_started_for_want_of_files_is_not_missing() {
    let pod = Pod::new().await;
    let there = fake_runtime(pod.dir.path(), "there", "exit 0");
    let keeper = Pid::from_raw(pod.keeper_pid.cast_signed());
    let open = fs::read_dir(format!("/proc/{}/fd", pod.keeper_pid)).unwrap();
    let open = open.count() as u64;
    let many = getrlimit(Resource::Nofile);
    let mut wanted = 0;
    // At each file that a start takes, one after the other.
    for more in 0..64 {
        let mut few = many;
        few.current = Some(open + more);
        prlimit(keeper, Resource::Nofile, few).unwrap();
        let wish = pod.script(&format!("c{more}"), "true");
        Pod::write_bundle(&wish);
        let result = pod.keeper.create(&there, &wish.create, LIMIT).await;
        match result {
            Err(Error::Runtime(error)) if error.fault == RuntimeFault::Exhausted => {
                assert!(error.detail.contains("LimitNOFILE"), "{error}");
                wanted += 1;
            }
            // All was there that it takes.
            Err(Error::Runtime(error)) if error.detail.contains("process ID") => break,
            other => panic!("{other:?}"),
        }
    }
    prlimit(keeper, Resource::Nofile, many).unwrap();
    assert!(wanted > 0);
}

#[tokio::test]
async fn an_oom_kill_is_told_and_recorded() {
    let mut pod = Pod::new().await;
    let mut wish = pod.script(
        "c1",
        "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo $x",
    );
    wish.config["linux"]["resources"]["memory"] = json!({"limit": 20_000_000});
    let controllers = cgroup_roots();
    let v1 = controllers
        .iter()
        .find(|root| root.join("memory.limit_in_bytes").exists());
    let root = v1.unwrap_or(&controllers[0]);
    let relative = format!("{}/c1", pod.cgroup.trim_start_matches('/'));
    wish.create.oom_cgroup = Some(root.join(relative));
    pod.run(&wish).await;
    let mut told = 0;
    let status = loop {
        match pod.event().await {
            KeeperEvent::OomKilled(killed) => told = killed.count,
            KeeperEvent::Exited(exited) => break exited.status,
            other => panic!("{other:?}"),
        }
    };
    assert!(status.oom && told > 0, "{status:?}, told {told}");
    assert!(recorded_exit(&pod.pod_dir(), "c1").unwrap().unwrap().oom);
    assert!(pod.keeper.list().await.unwrap().containers[0].oom_kills > 0);
}

#[tokio::test]
async fn an_oom_kill_is_known_without_one_of_the_node_s_few_inotify_instances() {
    let mut pod = Pod::new().await;
    let cgroup = pod.dir.path().join("cgroup");
    fs::create_dir(&cgroup).unwrap();
    fs::write(cgroup.join("memory.events"), "oom 0\noom_kill 0\n").unwrap();
    let mut wish = pod.script("c1", "read go; exit 137");
    wish.create.stdin = true;
    wish.create.stdin_once = true;
    wish.create.oom_cgroup = Some(cgroup.clone());
    pod.run(&wish).await;
    let descriptors = fs::read_dir(format!("/proc/{}/fd", pod.keeper_pid)).unwrap();
    let open = descriptors
        .flatten()
        .flat_map(|fd| fs::read_link(fd.path()));
    let open: Vec<_> = open.collect();
    assert!(!open.is_empty());
    assert!(
        open.iter()
            .all(|file| !file.to_string_lossy().contains("inotify")),
        "{open:?}"
    );

    fs::write(cgroup.join("memory.events"), "oom 1\noom_kill 1\n").unwrap();
    drop(pod.input("c1").await);
    let status = pod.exit_of("c1").await;
    assert!(status.oom, "{status:?}");
}

#[tokio::test]
async fn many_at_once_all_report() {
    let mut pod = Pod::new().await;
    let ids: Vec<String> = (0..6).map(|number| format!("c{number}")).collect();
    let runs = ids.iter().enumerate().map(|(code, id)| {
        let (pod, script) = (&pod, format!("echo {id}; exit {code}"));
        async move { pod.run_script(id, &script).await }
    });
    let mut all = Vec::new();
    for run in runs.map(Box::pin) {
        all.push(run);
    }
    join_all(all).await;
    let mut codes = Vec::new();
    while codes.len() < ids.len() {
        if let KeeperEvent::Exited(exited) = pod.event().await {
            assert_eq!(
                pod.logged(&exited.container),
                format!("{}\n", exited.container)
            );
            codes.push((exited.container, exited.status.code));
        }
    }
    codes.sort();
    let expected: Vec<_> = ids.into_iter().zip(0..).collect();
    assert_eq!(codes, expected);
}

/// Polls all futures until each is done.
async fn join_all<F: Future + Unpin>(mut futures: Vec<F>) {
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| std::pin::Pin::new(future).poll(context).is_pending());
        if futures.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

#[tokio::test]
async fn a_runtime_that_fails_after_it_made_a_process_leaves_none() {
    let pod = Pod::new().await;
    let wish = pod.script("c1", "true");
    Pod::write_bundle(&wish);
    let script = r#"while [ "$1" != --pid-file ]; do shift; done
        sleep 4711 & echo $! > "$2"; echo sorry >&2"#;
    let pid_file = wish.create.bundle.join("pid");
    let failing = fake_runtime(pod.dir.path(), "failing", &format!("{script}; exit 1"));
    let refused = pod.keeper.create(&failing, &wish.create, LIMIT).await;
    refused.unwrap_err();
    let pid: u32 = fs::read_to_string(&pid_file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    support::eventually("the process to be gone", || !is_alive(pid)).await;

    let hanging = fake_runtime(pod.dir.path(), "hanging", &format!("{script}; sleep 1000"));
    let limit = Duration::from_millis(500);
    let refused = pod.keeper.create(&hanging, &wish.create, limit).await;
    refused.unwrap_err();
    let pid: u32 = fs::read_to_string(&pid_file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    support::eventually("the process to be gone", || !is_alive(pid)).await;
    // A runtime that works is not held back by what went before.
    support::eventually("no children to be left", || {
        let children = format!("/proc/{0}/task/{0}/children", pod.keeper_pid);
        fs::read_to_string(children).unwrap().is_empty()
    })
    .await;
    pod.delete("c1").await;
    pod.run(&wish).await;
}
