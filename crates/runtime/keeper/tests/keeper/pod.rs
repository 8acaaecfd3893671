//! A pod's surroundings, and the daemon's comings and goings.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use orlop_launch::{
    Error, IdMap, Keeper, KeeperEvent, KeeperSpec, PodNamespaces, ShmMount, Sysctl,
    make_private_dir, recorded_exit,
};
use orlop_testkit::assert_contains;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::support::{self, Pod, is_alive};

fn ns_of(pid: u32, kind: &str) -> String {
    let link = fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
    link.to_string_lossy().into_owned()
}

#[tokio::test]
async fn namespaces_are_as_asked_for() {
    let pod = Pod::with(|dir, spec| {
        spec.hostname = Some("pod-host".into());
        spec.net_pin = Some(dir.join("netns"));
        spec.sysctls = [
            ("net.ipv4.ip_unprivileged_port_start", "81"),
            ("kernel/shm_rmid_forced", "1"),
        ]
        .map(|(name, value)| Sysctl {
            name: name.into(),
            value: value.into(),
        })
        .to_vec();
    })
    .await;
    let own = std::process::id();
    for kind in ["net", "ipc", "uts", "mnt"] {
        assert_ne!(ns_of(pod.keeper_pid, kind), ns_of(own, kind), "{kind}");
    }
    for kind in ["pid", "user", "cgroup"] {
        assert_eq!(ns_of(pod.keeper_pid, kind), ns_of(own, kind), "{kind}");
    }
    let pinned = fs::metadata(pod.dir.path().join("netns")).unwrap();
    assert_eq!(
        pinned.ino(),
        fs::metadata(pod.keeper.net_ns()).unwrap().ino()
    );

    let script = "hostname; cat /proc/sys/net/ipv4/ip_unprivileged_port_start \
                  /proc/sys/kernel/shm_rmid_forced";
    pod.run_script("c1", script).await;
    pod.wait_for_log("c1", "pod-host").await;
    assert_eq!(pod.logged("c1").lines().next(), Some("pod-host"));
    pod.wait_for_log("c1", "F 81").await;

    orlop_launch::remove_pin(&pod.dir.path().join("netns")).unwrap();
    assert!(!pod.dir.path().join("netns").exists());
    orlop_launch::remove_pin(&pod.dir.path().join("netns")).unwrap();
}

#[tokio::test]
async fn the_keeper_moves_to_its_cgroups() {
    // A cpuset must be given processors before it takes a process in.
    let roots = support::cgroup_roots();
    let roots = roots
        .iter()
        .filter(|root| !root.join("cpuset.cpus").exists());
    let name = format!("orlop-keeper-cgroup-test-{}", std::process::id());
    let dirs: Vec<_> = roots.map(|root| root.join(&name)).collect();
    for dir in &dirs {
        fs::create_dir(dir).unwrap();
    }
    let pod = Pod::with(|_, spec| {
        spec.cgroups.clone_from(&dirs);
        // Refused to those who may not; that is no reason not to start.
        spec.oom_score_adj = Some(-999);
    })
    .await;
    let membership = fs::read_to_string(format!("/proc/{}/cgroup", pod.keeper_pid)).unwrap();
    drop(pod);
    support::eventually("the cgroups to be empty", || {
        dirs.iter()
            .all(|dir| fs::remove_dir(dir).is_ok() || !dir.exists())
    })
    .await;
    let inside = membership
        .lines()
        .filter(|line| line.ends_with(&format!(":/{name}")));
    assert_eq!(inside.count(), dirs.len(), "{membership}");
}

#[tokio::test]
async fn a_pod_may_share_all_with_the_host() {
    let pod = Pod::with(|_, spec| spec.namespaces = PodNamespaces::default()).await;
    for kind in ["net", "ipc", "uts", "pid", "user"] {
        assert_eq!(
            ns_of(pod.keeper_pid, kind),
            ns_of(std::process::id(), kind),
            "{kind}"
        );
    }
    assert_eq!(pod.keeper.pid_ns(), None);
}

#[tokio::test]
async fn the_keeper_keeps_nothing_of_its_starter_s() {
    let file = tempfile::tempfile().unwrap();
    // As if somebody had forgotten to mark it.
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let pod = Pod::new().await;
    let proc = format!("/proc/{}", pod.keeper_pid);
    for entry in fs::read_dir(format!("{proc}/fd")).unwrap().flatten() {
        let target = fs::read_link(entry.path()).unwrap();
        let target = target.to_string_lossy();
        // The mount namespaces are the host's, which containers are made in copies of, and one with few mounts, as
        // is the directory of its own.
        let own = ["/dev/null", "anon_inode:", "socket:", "mnt:[", "/mounts"];
        let fine = own.iter().any(|own| target.starts_with(own));
        assert!(
            fine || target.starts_with(&*pod.pod_dir().to_string_lossy()),
            "{target}"
        );
    }
    let stat = fs::read_to_string(format!("{proc}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    assert_ne!(fields[1], std::process::id().to_string(), "its parent");
    assert_eq!(
        fields[3],
        pod.keeper_pid.to_string().as_str(),
        "its session"
    );
    assert_eq!(
        fs::read_link(format!("{proc}/cwd")).unwrap(),
        Path::new("/")
    );
    assert_eq!(
        fs::read_to_string(format!("{proc}/comm")).unwrap(),
        "orlop-keeper\n"
    );
    // A polite request to end is none of its business.
    let pid = rustix::process::Pid::from_raw(pod.keeper_pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(pod.keeper.list().await.is_ok());
}

/// The process that a path below `/proc` names.
fn pid_in(path: &Path) -> u32 {
    let pid = path.components().nth(2).unwrap().as_os_str();
    pid.to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_keeper_and_its_init_may_open_what_the_daemon_was_started_with() {
    let started_with = Rlimit {
        current: Some(1000),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, started_with).unwrap();
    orlop_launch::raise_open_files().unwrap();
    assert_ne!(getrlimit(Resource::Nofile), started_with);
    let pod = Pod::with(|_, spec| spec.namespaces.shared_pid = true).await;
    let init = pid_in(&pod.keeper.pid_ns().unwrap());
    for pid in [pod.keeper_pid, init] {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let files = limits
            .lines()
            .find(|line| line.starts_with("Max open files"));
        let now = files.unwrap().split_whitespace().nth(3);
        assert_eq!(now, Some("1000"), "{limits}");
    }
}

#[tokio::test]
async fn the_end_of_a_shared_pid_namespace_is_noticed_and_its_number_is_not_used_again() {
    let mut pod = Pod::with(|_, spec| spec.namespaces.shared_pid = true).await;
    let mut wish = pod.script("c1", "sleep 1000");
    let path = pod.keeper.pid_ns().unwrap();
    let namespaces = wish.config["linux"]["namespaces"].as_array_mut().unwrap();
    namespaces[0] = json!({"type": "pid", "path": path});
    pod.run(&wish).await;
    let init = rustix::process::Pid::from_raw(pid_in(&path).cast_signed()).unwrap();
    rustix::process::kill_process(init, rustix::process::Signal::KILL).unwrap();
    tokio::time::timeout(support::LIMIT, pod.keeper.init_ended())
        .await
        .unwrap();
    assert_eq!(pod.exit_of("c1").await.code, 137);
    assert_eq!(pod.keeper.pid_ns(), None);
    // Who comes later learns it as well.
    let (keeper, _events) = Keeper::connect(&pod.pod_dir()).await.unwrap();
    assert_eq!(keeper.pid_ns(), None);
}

#[tokio::test]
async fn containers_share_a_pid_namespace_if_asked_to() {
    let pod = Pod::with(|_, spec| spec.namespaces.shared_pid = true).await;
    let pid_ns = pod.keeper.pid_ns().unwrap();
    let init = pid_in(&pid_ns);
    support::eventually(
        "the init to have let go of the keeper's descriptors",
        || {
            let comm = fs::read_to_string(format!("/proc/{init}/comm")).unwrap();
            comm == "pod-init\n" && fs::read_dir(format!("/proc/{init}/fd")).unwrap().count() == 3
        },
    )
    .await;
    // What the containers see as their init has nothing that they have not.
    support::eventually("the init to have let go of its rights", || {
        let status = fs::read_to_string(format!("/proc/{init}/status")).unwrap();
        [
            "Uid:\t65534\t65534",
            "CapPrm:\t0000000000000000",
            "NoNewPrivs:\t1",
        ]
        .iter()
        .all(|line| status.contains(line))
    })
    .await;
    assert_eq!(
        fs::read_dir(format!("/proc/{init}/root")).unwrap().count(),
        0
    );
    assert_eq!(
        fs::read_to_string(format!("/proc/{init}/mountinfo"))
            .unwrap()
            .lines()
            .count(),
        1
    );
    let mut pids = Vec::new();
    // The second one leaves orphans to the init.
    for (id, script) in [
        ("c1", "sleep 1000"),
        (
            "c2",
            "(true &); (true &); for s in 1 2 3 9 15; do kill -$s 1; done; echo ok; sleep 1000",
        ),
    ] {
        let mut wish = pod.script(id, script);
        wish.config["linux"]["namespaces"][0] = json!({"type": "pid", "path": pid_ns});
        pids.push(pod.run(&wish).await);
    }
    pod.wait_for_log("c2", "ok").await;
    assert_eq!(ns_of(pids[0], "pid"), ns_of(pids[1], "pid"));
    assert_ne!(ns_of(pids[0], "pid"), ns_of(std::process::id(), "pid"));
    let children = format!("/proc/{init}/task/{init}/children");
    support::eventually("the orphans to be reaped", || {
        fs::read_to_string(&children).unwrap().is_empty()
    })
    .await;
    pod.keeper.shutdown().await.unwrap();
    support::eventually("all to be gone", || {
        !is_alive(init) && !pids.iter().any(|&pid| is_alive(pid))
    })
    .await;
}

#[tokio::test]
async fn a_container_that_may_trace_learns_nothing_of_the_node_from_process_1() {
    let pod = Pod::with(|_, spec| spec.namespaces.shared_pid = true).await;
    let pid_ns = pod.keeper.pid_ns().unwrap();
    // It has nothing any more by the time that the first container can be made.
    let status = fs::read_to_string(pid_ns.ancestors().nth(2).unwrap().join("status")).unwrap();
    assert!(status.contains("CapPrm:\t0000000000000000"), "{status}");
    let script = "cat /proc/1/cmdline | tr '\\0' '+'; echo; cat /proc/1/environ | tr -d '\\0'; \
                  ls -A /proc/1/root; tail -n 2 /proc/1/mountinfo; echo end";
    let mut wish = pod.script("c1", script);
    wish.config["linux"]["namespaces"][0] = json!({"type": "pid", "path": pid_ns});
    let may = json!(["CAP_SYS_PTRACE", "CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE"]);
    wish.config["process"]["capabilities"] =
        json!({"bounding": may, "effective": may, "permitted": may});
    pod.run(&wish).await;
    pod.wait_for_log("c1", "end").await;
    let logged = pod.logged("c1");
    let lines: Vec<&str> = logged.lines().collect();
    // Nothing of its environment, no files, and one mount: an empty file system of its own.
    let [cmdline, mount, "end"] = lines[..] else {
        panic!("{logged}");
    };
    assert_eq!(cmdline.trim_end_matches('+'), "pod-init");
    assert_contains!(mount, " / / ro,", " - tmpfs ");
}

#[tokio::test]
async fn namespaces_may_belong_to_a_user_namespace() {
    let map = vec![IdMap {
        inside: 0,
        outside: 200_000,
        count: 65_536,
    }];
    let pod = Pod::with(|_, spec| {
        spec.namespaces.user = Some((map.clone(), map));
        spec.namespaces.shared_pid = true;
        spec.hostname = Some("mapped".into());
    })
    .await;
    let user_ns = pod.keeper.user_ns();
    let inode = fs::metadata(&user_ns).unwrap().ino();
    assert_ne!(inode, fs::metadata("/proc/self/ns/user").unwrap().ino());
    let init = pod.keeper.pid_ns().unwrap();
    let init = init.ancestors().nth(2).unwrap();
    let owner = fs::metadata(init.join("ns/user")).unwrap().ino();
    assert_eq!(owner, inode);
    let map = fs::read_to_string(init.join("uid_map")).unwrap();
    assert_eq!(
        map.split_whitespace().collect::<Vec<_>>(),
        ["0", "200000", "65536"]
    );
    // The namespace's nobody, as soon as it has let go of its rights.
    support::eventually("the init to be nobody", || {
        fs::read_to_string(init.join("status"))
            .unwrap()
            .contains("Uid:\t265534\t265534")
    })
    .await;
    assert_eq!(
        ns_of(pod.keeper_pid, "user"),
        ns_of(std::process::id(), "user")
    );
}

#[tokio::test]
async fn mounts_stay_out_of_the_host_and_end_with_their_container() {
    let pod = pod_with_shm(true).await;
    assert_eq!(pod.own_mounts(), ["0"]);
    let table = |pid: &str| fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    // None of those that it finds by its root are its own.
    assert_eq!(table(&pod.keeper_pid.to_string()), "");
    mounts_end_with_their_container(pod, |pod| {
        let below = format!("{}/private/", pod.dir.path().display());
        assert!(!table("self").contains(&below), "mounted on the host");
        let own = pod.own_mounts();
        own.iter().skip(1).map(|_| "c1".to_owned()).collect()
    })
    .await;
}

#[tokio::test]
async fn mounts_in_a_copy_of_the_hosts_stay_out_of_those_and_end_with_their_container() {
    let pod = pod_with_shm(false).await;
    let mounted = |pid: &str, root: &Path| {
        let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
        let prefix = format!("{}/", root.display());
        let points = table
            .lines()
            .filter_map(|line| line.split(' ').nth(4)?.strip_prefix(&prefix));
        points.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    mounts_end_with_their_container(pod, |pod| {
        let root = pod.dir.path().join("private");
        assert_eq!(mounted("self", &root), Vec::<String>::new());
        let mut own = mounted(&pod.keeper_pid.to_string(), &root);
        assert_eq!(own.remove(0), "shm");
        own
    })
    .await;
}

async fn pod_with_shm(few: bool) -> Pod {
    Pod::with(|dir, spec| {
        if !few {
            spec.few_mounts = None;
        }
        let root = dir.join("private");
        make_private_dir(&root).unwrap();
        // Once more does no harm.
        make_private_dir(&root).unwrap();
        fs::create_dir(root.join("shm")).unwrap();
        spec.shm = Some(ShmMount {
            path: root.join("shm"),
            size: 1 << 20,
            label: String::new(),
        });
    })
    .await
}

/// `mounted` tells what is mounted besides the shared memory.
async fn mounts_end_with_their_container(mut pod: Pod, mounted: impl Fn(&Pod) -> Vec<String>) {
    let root = pod.dir.path().join("private");
    let target = root.join("c1");
    fs::create_dir(&target).unwrap();
    let tree = support::detached_tmpfs(c"16m");
    let inside = Path::new("/proc/self/fd").join(tree.as_raw_fd().to_string());
    for dir in ["bin", "proc", "dev"] {
        fs::create_dir(inside.join(dir)).unwrap();
    }
    fs::copy("/bin/busybox", inside.join("bin/busybox")).unwrap();
    for applet in ["sh", "dd"] {
        std::os::unix::fs::symlink("busybox", inside.join("bin").join(applet)).unwrap();
    }
    pod.keeper.place_mount("c1", tree, &target).await.unwrap();
    assert_eq!(mounted(&pod), ["c1"]);

    // A container whose root file system it is, made through the keeper's own view.
    let mut wish = pod.script(
        "c1",
        "echo in; dd if=/dev/zero of=/dev/shm/x bs=64k count=100; echo $?",
    );
    wish.config["root"]["path"] = json!(target);
    let shm = json!({"destination": "/dev/shm", "type": "bind", "source": root.join("shm"),
                     "options": ["rbind"]});
    wish.config["mounts"].as_array_mut().unwrap().push(shm);
    pod.run(&wish).await;
    assert_eq!(pod.exit_of("c1").await.code, 0);
    let logged = pod.logged("c1");
    assert!(
        logged.starts_with("in\n") && logged.contains("No space left"),
        "{logged}"
    );
    pod.delete("c1").await;
    assert_eq!(mounted(&pod), Vec::<String>::new());

    // One that never reached its runtime.
    pod.keeper
        .place_mount("c2", support::detached_tmpfs(c"16m"), &target)
        .await
        .unwrap();
    assert_eq!(pod.keeper.list().await.unwrap().containers.len(), 1);
    pod.keeper.forget("c2").await.unwrap();
    assert_eq!(mounted(&pod), Vec::<String>::new());
}

#[tokio::test]
async fn ports_of_the_pod_s_loopback_can_be_reached() {
    let pod = Pod::new().await;
    pod.run_script("c1", "echo hello | nc -l -p 8080").await;
    let end = std::time::Instant::now() + support::LIMIT;
    let mut stream = loop {
        assert!(std::time::Instant::now() < end, "nobody listens");
        match pod.keeper.dial(8080, Duration::from_secs(5)).await {
            Ok(stream) => break stream,
            Err(error) => assert!(error.to_string().contains("refused"), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    stream.set_nonblocking(false).unwrap();
    stream.write_all(b"bye\n").unwrap();
    let mut text = [0; 6];
    stream.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"hello\n");
    pod.wait_for_log("c1", "bye").await;
    let error = pod.keeper.dial(9, Duration::from_secs(5)).await;
    let error = error.unwrap_err();
    assert_eq!(
        error.failure_kind(),
        Some(orlop_launch::FailureKind::Refused)
    );
}

#[tokio::test]
async fn a_daemon_that_went_away_finds_all_that_happened() {
    let mut pod = Pod::new().await;
    pod.run_script(
        "short",
        "while [ ! -e /tmp/go ]; do sleep 0.02; done; exit 9",
    )
    .await;
    let long = pod
        .run_script("long", "while :; do echo still here; sleep 0.05; done")
        .await;
    pod.run_script("gone", "exit 1").await;
    pod.exit_of("gone").await;
    // All connections end (another pod's take their places): there is nobody to tell.
    let pid = pod.keeper.pid();
    let other = Pod::new().await;
    (pod.keeper, pod.events) = Keeper::connect(&other.pod_dir()).await.unwrap();
    let dir = pod.pod_dir();
    fs::write(pod.bundle("short").join("rootfs/tmp/go"), "").unwrap();
    // Its log goes on all the same.
    let lines = || pod.logged("long").lines().count();
    let before = lines();
    support::eventually("the log to grow", || lines() > before + 2).await;
    support::eventually("the exit record", || {
        recorded_exit(&dir, "short").unwrap().is_some()
    })
    .await;

    let (keeper, mut events) = Keeper::connect(&dir).await.unwrap();
    assert_eq!(keeper.pid(), pid);
    let listing = keeper.list().await.unwrap();
    let codes: Vec<_> = listing
        .containers
        .iter()
        .map(|container| {
            (
                container.id.as_str(),
                container.exit.as_ref().map(|exit| exit.code),
            )
        })
        .collect();
    assert_eq!(
        codes,
        [("short", Some(9)), ("long", None), ("gone", Some(1))]
    );
    assert!(is_alive(long));
    keeper.kill("long", 9).await.unwrap();
    assert!(
        matches!(events.next().await, KeeperEvent::Exited(exited) if exited.container == "long")
    );

    keeper.shutdown().await.unwrap();
    assert_eq!(events.next().await, KeeperEvent::Gone);
    assert!(!keeper.is_connected());
    assert!(keeper.list().await.unwrap_err().is_gone());
    let Err(error) = Keeper::connect(&dir).await else {
        panic!("connected to a keeper that has ended");
    };
    assert!(error.is_gone());
}

#[tokio::test]
async fn a_keeper_s_death_is_noticed_and_exits_are_on_record() {
    let mut pod = Pod::new().await;
    pod.run_script("c1", "exit 4").await;
    pod.exit_of("c1").await;
    let pid = rustix::process::Pid::from_raw(pod.keeper_pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(pod.event().await, KeeperEvent::Gone);
    assert_eq!(pod.event().await, KeeperEvent::Gone);
    let error = pod.keeper.list().await.unwrap_err();
    assert!(matches!(error, Error::Gone { .. }), "{error}");
    assert_eq!(
        recorded_exit(&pod.pod_dir(), "c1").unwrap().unwrap().code,
        4
    );
}

#[tokio::test]
async fn shutdown_kills_what_is_left() {
    let pod = Pod::new().await;
    let pid = pod.run_script("c1", "trap '' TERM; sleep 1000").await;
    pod.keeper.shutdown().await.unwrap();
    pod.keeper.shutdown().await.unwrap();
    assert!(!is_alive(pid));
    support::eventually("the keeper to be gone", || !is_alive(pod.keeper_pid)).await;
    assert!(!pod.pod_dir().join("keeper.sock").exists());
    let recorded = recorded_exit(&pod.pod_dir(), "c1").unwrap().unwrap();
    assert_eq!(recorded.code, 137);
}

#[tokio::test]
async fn a_pod_that_cannot_be_set_up_says_why_and_leaves_no_keeper() {
    let dir = tempfile::tempdir().unwrap();
    let spec = KeeperSpec {
        program: support::program(),
        pod_id: format!("orlop-unlucky-{}", std::process::id()),
        dir: dir.path().to_owned(),
        ..KeeperSpec::default()
    };
    let sysctl = |name: &str| KeeperSpec {
        sysctls: vec![Sysctl {
            name: name.into(),
            value: "1".into(),
        }],
        ..spec.clone()
    };
    for (spec, expected) in [
        (sysctl("no.such.thing"), "no.such.thing"),
        (sysctl("../x.y"), "not the name of a kernel parameter"),
        (
            KeeperSpec {
                dir: dir.path().join("nowhere"),
                ..spec.clone()
            },
            "nowhere",
        ),
        (
            KeeperSpec {
                program: "/no/such/keeper".into(),
                ..spec.clone()
            },
            "/no/such/keeper",
        ),
        (
            KeeperSpec {
                program: "/bin/true".into(),
                ..spec.clone()
            },
            "has exited",
        ),
    ] {
        let Err(error) = Keeper::spawn(spec).await else {
            panic!("a keeper was made: {expected}");
        };
        assert!(error.to_string().contains(expected), "{error}");
    }
    support::eventually("no keeper to be left", || {
        !fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            line.ends_with(&format!("{}\0", spec.pod_id))
        })
    })
    .await;
}
