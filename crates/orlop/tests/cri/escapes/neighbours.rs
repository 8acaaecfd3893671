//! What stands beside a container: its pod's init, its keeper, the daemon and their sockets.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use orlop_cri_api::v1::{Capability, NamespaceMode, PodSandboxState};
use orlop_testkit::ContainerSpec;

use crate::users::{with_users, world_with_users};
use crate::world::{World, ours};

/// A container that may look into processes and shares them with its pod.
#[tokio::test]
async fn a_shared_pid_namespace_shows_neither_node_nor_keeper() {
    let world = ours!();
    let marker = world.node.scratch().path("marker");
    fs::write(&marker, "of the node").expect("write");
    let pod = world.node.pod("shared").shared_pid();
    let pod_id = world.run_pod(&pod).await;
    let spec = may_trace(world.container("main").shell("sleep 600"));
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let sh = async |script: &str| {
        let output = world.cri.exec(&id, &["sh", "-c", script]).await;
        let output = output.expect("exec");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // What it sees: an init that is nobody, and its own.
    let seen = sh("cat /proc/[0-9]*/comm").await;
    assert!(
        seen.contains("pod-init") && !seen.contains("orlop"),
        "{seen:?}"
    );
    assert_eq!(
        sh("grep -E '^(CapPrm|CapEff):' /proc/1/status | tr -d '\\t0'").await,
        "CapPrm:\nCapEff:\n"
    );
    // What it gets of it: an empty directory.
    let script = format!(
        "ls -A /proc/1/root/ /proc/1/cwd/; cat /proc/1/root{}",
        marker.display()
    );
    let got = sh(&format!("({script}) 2>/dev/null")).await;
    assert!(!got.contains("of the node"), "{got}");
    let names: Vec<&str> = got
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("/proc/1/"))
        .collect();
    assert_eq!(names, [""; 0], "something of the node shows");
    let fds = sh("for f in /proc/1/fd/*; do readlink $f; done").await;
    assert!(
        fds.lines()
            .all(|target| target == "/dev/null" || target == "/"),
        "{fds}"
    );
    // The program it was made from cannot be overwritten through it.
    let keeper = orlop_testkit::node::keeper_binary();
    let before = fs::metadata(&keeper).expect("look").mtime();
    sh("(echo x > /proc/1/exe) 2>/dev/null; true").await;
    assert_eq!(fs::metadata(&keeper).expect("look").mtime(), before);
    // Its pod does not die of signals from within.
    sh("for s in HUP INT QUIT KILL TERM USR1; do kill -$s 1; done").await;
    let answer = world.cri.exec(&id, &["echo", "alive"]).await.expect("exec");
    assert_eq!(answer.stdout, b"alive\n");
    let status = world.cri.pod_status(&pod_id).await.expect("status");
    assert_eq!(status.state(), PodSandboxState::SandboxReady);
    world.finish().await;
}

/// With the node's own processes in sight, a user of a container has no power over the keeper.
#[tokio::test]
async fn a_user_in_the_nodes_pid_namespace_cannot_touch_keepers() {
    let world = ours!();
    let pod = world.node.pod("hostpid").with(|config| {
        let linux = config.linux.get_or_insert_default();
        let security = linux.security_context.get_or_insert_default();
        security.namespace_options.get_or_insert_default().pid = NamespaceMode::Node.into();
    });
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("sleep 600").uid(1000);
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let keepers = processes_of(&world);
    assert!(keepers.len() >= 2, "the daemon and a keeper: {keepers:?}");
    for pid in keepers {
        let script = format!(
            "kill -9 {pid} && echo killed; ls -A /proc/{pid}/root/; ls -A /proc/{pid}/fd; \
             cat /proc/{pid}/environ /proc/{pid}/maps"
        );
        let script = format!("({script}) 2>/dev/null; true");
        let got = world.cri.exec(&id, &["sh", "-c", &script]).await;
        let got = got.expect("exec");
        assert!(
            got.stdout.is_empty(),
            "{}",
            String::from_utf8_lossy(&got.stdout)
        );
    }
    let status = world.cri.pod_status(&pod_id).await.expect("status");
    assert_eq!(status.state(), PodSandboxState::SandboxReady);
    world.finish().await;
}

/// CVE-2020-15257 and its kin: a socket that is found by whoever shares the network.
#[tokio::test]
async fn sockets_of_the_daemon_and_of_keepers_are_out_of_reach() {
    let world = ours!();
    let running = world.run_script("host", "sleep 600").await;
    let table = fs::read_to_string("/proc/net/unix").expect("read");
    let mut paths = BTreeSet::new();
    for pid in processes_of(&world) {
        for inode in sockets_of(pid) {
            let line = table
                .lines()
                .find(|line| line.split_whitespace().nth(6) == Some(&inode));
            let name = line.and_then(|line| line.split_whitespace().nth(7));
            let Some(name) = name else { continue };
            // An abstract name has no owner and no mode.
            assert!(name.starts_with('/'), "process {pid} listens on {name}");
            paths.insert(PathBuf::from(name));
        }
    }
    assert!(!paths.is_empty(), "the daemon has a socket");
    for path in &paths {
        let Ok(found) = fs::metadata(path) else {
            continue;
        };
        assert_eq!(found.permissions().mode() & 0o007, 0, "{}", path.display());
    }
    // Nor are their directories among the container's mounts.
    let script = format!(
        "ls {} {} 2>/dev/null; true",
        world.node.state().display(),
        world.node.root().display()
    );
    let got = world.cri.exec(&running.id, &["sh", "-c", &script]).await;
    let got = got.expect("exec");
    assert!(
        got.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&got.stdout)
    );
    world.finish().await;
}

fn may_trace(spec: ContainerSpec) -> ContainerSpec {
    spec.with(|config| {
        let linux = config.linux.get_or_insert_default();
        let security = linux.security_context.get_or_insert_default();
        security.capabilities = Some(Capability {
            add_capabilities: vec!["SYS_PTRACE".to_owned(), "KILL".to_owned()],
            ..Capability::default()
        });
    })
}

/// The daemon and its keepers.
fn processes_of(world: &World) -> Vec<u32> {
    let state = world.node.state();
    let mut found = vec![world.node.pid()];
    for entry in fs::read_dir("/proc").expect("read").flatten() {
        let dir = entry.path();
        let is_keeper =
            fs::read_to_string(dir.join("comm")).is_ok_and(|comm| comm == "orlop-keeper\n");
        // The pod's directory is one of its open files.
        let ours = || {
            targets(&dir)
                .iter()
                .any(|target| target.starts_with(&state))
        };
        if is_keeper && ours() {
            found.extend(
                entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse::<u32>().ok()),
            );
        }
    }
    found
}

fn targets(process: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .collect()
}

fn sockets_of(pid: u32) -> Vec<String> {
    let inode = |target: PathBuf| {
        let text = target.to_string_lossy().into_owned();
        Some(text.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    targets(Path::new(&format!("/proc/{pid}")))
        .into_iter()
        .filter_map(inode)
        .collect()
}

#[tokio::test]
async fn a_pod_of_a_user_namespace_hides_its_init_from_its_own_root() {
    let world = world_with_users!();
    let pod = with_users(world.node.pod("mapped").shared_pid());
    let pod_id = world.run_pod(&pod).await;
    let spec = may_trace(world.container("main").shell("sleep 600"));
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let mut answer = String::new();
    for script in [
        "ls -A /proc/1/root/ 2>/dev/null",
        "ls /proc/1/fd 2>/dev/null",
        "readlink /proc/1/exe 2>/dev/null",
    ] {
        let got = world.cri.exec(&id, &["sh", "-c", script]).await;
        let got = got.expect("exec");
        answer.push_str(&String::from_utf8_lossy(&got.stdout));
    }
    assert_eq!(
        answer, "",
        "capabilities of the namespace are none on the node"
    );
    world.finish().await;
}
