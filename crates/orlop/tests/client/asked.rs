//! What people who debug a node asked for, on our own endpoint and on a peer's.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use orlop_testkit::{
    ContainerSpec, Node, NodeBuilder, assert_contains, machine, node, skip_unless,
};

use crate::world::World;

/// The whole round on one endpoint; `native` has what only orlop tells.
async fn round(node: NodeBuilder, native: bool) {
    let world = World::start(node).await;
    let (cri, client, node, image) = (&world.cri, &world.client, &world.node, &world.image);
    let pod = node.pod("asked").own_network();
    let pod_id = cri.run_pod(&pod).await.unwrap();
    let main = ContainerSpec::new("main", image)
        .shell("echo main-says; trap 'exit 3' TERM; while :; do sleep 0.1; done");
    let main_id = cri.run(&pod_id, &pod, &main).await.unwrap();
    let side = ContainerSpec::new("side", image).shell("echo side-says >&2; exec sleep 600");
    cri.run(&pod_id, &pod, &side).await.unwrap();
    let here = tempfile::tempdir().unwrap();
    let path = |name: &str| here.path().join(name).to_str().unwrap().to_owned();

    // The logs of all containers, each line with its container's name.
    let mut logs = client.succeeds(&["logs", &pod_id]);
    for _ in 0..100 {
        // Runtimes write what containers say when they come to it.
        if !logs.stdout.is_empty() && !logs.stderr.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        logs = client.succeeds(&["logs", &pod_id]);
    }
    let lines = String::from_utf8(logs.stdout).unwrap();
    assert!(lines.contains("main | main-says\n"), "{lines}");
    assert_eq!(logs.stderr, b"side | side-says\n");
    assert_eq!(
        client.succeeds(&["logs", "--pod", "asked", "side"]).stdout,
        b""
    );

    // Pods, containers, processes, cgroups.
    let tree = client.json(&["tree", "asked", "-o", "json"]);
    let containers = &tree["pods"][0]["containers"];
    assert_eq!(containers[1]["name"], "side");
    assert_eq!(containers[1]["processes"][0]["command"], "sleep 600");
    let cgroup = containers[0]["cgroup"].as_str().unwrap();
    assert!(cgroup.len() > 1, "{cgroup}");
    let text = client.out(&["tree", "asked"]);
    assert_contains!(text, "└─ side", "sleep 600");

    // Files there and back, and what that changed.
    fs::create_dir_all(path("tree/below")).unwrap();
    fs::write(path("tree/below/file"), "text").unwrap();
    symlink("below/file", path("tree/link")).unwrap();
    client.succeeds(&["cp", &path("tree"), "main:/srv"]);
    client.succeeds(&["cp", "main:/srv", &path("back")]);
    assert_eq!(fs::read_to_string(path("back/link")).unwrap(), "text");
    client.succeeds(&[
        "exec",
        "main",
        "sh",
        "-c",
        "rm /bin/wc; ln -s /etc /srv/evil",
    ]);
    assert!(
        client
            .error(&["cp", "main:/srv", &path("evil")])
            .contains("may lead out of the copied tree")
    );
    assert!(!fs::exists(path("evil/evil")).unwrap());
    assert!(
        client
            .error(&["cp", "main:/nowhere", &path("x")])
            .contains("/nowhere")
    );
    assert!(!fs::exists(path("x")).unwrap());
    // Pipes have no end that a copy could wait for.
    let pipe = |path: &str| {
        let made = Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    };
    client.succeeds(&[
        "exec",
        "main",
        "sh",
        "-c",
        "mkdir /opt; mkfifo /srv/pipe /opt/unread",
    ]);
    let left_out = |from: &str, to: &str, rest: &str| {
        let error = client.error(&["cp", from, to]);
        assert!(error.contains("pipe") && error.contains(rest), "{error}");
    };
    left_out("main:/srv", &path("piped"), "cannot copy 2 of the files");
    assert_eq!(
        fs::read_to_string(path("piped/below/file")).unwrap(),
        "text"
    );
    left_out("main:/srv/pipe", &path("x"), "sent no data");
    pipe(&path("tree/pipe"));
    left_out(&path("tree"), "main:/opt/", "cannot copy 1 of the files");
    client.succeeds(&["exec", "main", "test", "-f", "/opt/tree/below/file"]);
    left_out(&path("tree/pipe"), "main:/opt/", "skipped");
    fs::remove_file(path("tree/pipe")).unwrap();
    let diff = client.out(&["diff", "main"]);
    for line in ["D /bin/wc", "A /srv/below/file", "A /srv/evil"] {
        assert!(diff.lines().any(|found| found == line), "{line} in {diff}");
    }
    // Without tar and a shell (which has a tar of its own here) a single file goes through tee and
    // cat; of more it is said what is missing.
    client.succeeds(&["exec", "main", "rm", "/bin/tar", "/bin/sh"]);
    fs::write(path("one"), "alone").unwrap();
    client.succeeds(&["cp", &path("one"), "main:/tmp/one"]);
    client.succeeds(&["cp", "main:/tmp/one", &path("two")]);
    assert_eq!(fs::read_to_string(path("two")).unwrap(), "alone");
    left_out("main:/srv/pipe", &path("x"), "is not a regular file");
    left_out(
        &path("one"),
        "main:/srv/pipe",
        "exists and is not a regular file",
    );
    client.succeeds(&["exec", "main", "rm", "/bin/test"]);
    left_out("main:/srv/pipe", &path("x"), "sent no data");
    left_out(&path("one"), "main:/opt/unread", "did not open");
    // Nor is it waited for one that was called a file.
    fs::write(path("test"), "#!/bin/busybox true\n").unwrap();
    client.succeeds(&["cp", &path("test"), "main:/bin/test"]);
    client.succeeds(&["exec", "main", "chmod", "755", "/bin/test"]);
    left_out("main:/srv/pipe", &path("x"), "sent no data");
    client.succeeds(&["exec", "main", "rm", "/bin/test"]);
    client.succeeds(&["cp", "main:/tmp/one", &path("two")]);
    assert!(!fs::exists(path("x")).unwrap());
    let error = client.error(&["cp", &path("tree"), "main:/tmp/tree"]);
    assert_contains!(error, "no `tar`", "/root");

    // What pods have of the network.
    if native {
        let attached = client.json(&["network", "ls", "--pods", "-o", "json"]);
        let attachment = &attached["attachments"][0];
        assert_eq!(attachment["podSandboxId"], pod_id.as_str());
        let ip = cri.pod_status(&pod_id).await.unwrap().network.unwrap().ip;
        assert_eq!(attachment["ips"][0], ip.as_str());
        let inspected = client.json(&["network", "inspect", "asked"]);
        assert!(inspected["record"]["networks"].is_array(), "{inspected}");
        let orphans = client.json(&["network", "gc", "--dry-run", "-o", "json"]);
        assert_eq!(orphans["released"], serde_json::json!([]));
    } else {
        for words in [&["network", "ls"][..], &["trace"]] {
            assert!(client.error(words).contains("another runtime"), "{words:?}");
        }
    }

    // Waiting, and what has ended is removed.
    assert!(
        client
            .error(&["wait", "main", "--timeout", "100ms"])
            .contains("100ms")
    );
    let waiting = client.begin(&["wait", "--exit-code", "main"]);
    client.succeeds(&["stop", "-t", "10", "main"]);
    let waited = waiting.wait_with_output().unwrap();
    assert_eq!(
        (waited.status.code(), &waited.stdout[..]),
        (Some(3), &b"3\n"[..])
    );
    assert!(
        client.error(&["prune"]).contains("--yes"),
        "who can't be asked says so"
    );
    assert!(client.out(&["prune", "--dry-run"]).contains("main"));
    assert_eq!(
        client.out(&["prune", "--yes"]).lines().last().unwrap(),
        format!("Removed container {main_id}")
    );
    assert!(!client.out(&["ps", "-a"]).contains("main"));
    world.finish().await;
}

#[tokio::test]
async fn a_node_is_debugged_on_our_own_endpoint() {
    skip_unless!(machine::can_run_pods());
    Box::pin(round(Node::any(), true)).await;
}

#[tokio::test]
async fn a_node_is_debugged_on_a_peer_s_endpoint() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(node::containerd_program().map(drop));
    Box::pin(round(Node::containerd(), false)).await;
}

#[tokio::test]
async fn events_are_filtered_and_shells_are_offered_what_there_is() {
    skip_unless!(machine::can_run_pods());
    let world = World::start(Node::orlop()).await;
    let (cri, client, node, image) = (&world.cri, &world.client, &world.node, &world.image);
    let pod = node.pod("told");
    let pod_id = cri.run_pod(&pod).await.unwrap();
    let mut words = vec!["events", "-o", "table", "-n", "1"];
    words.extend(["--filter", "type=stopped", "--filter", "container=quick"]);
    let events = client.begin(&words);
    // Subscribed when the daemon has the stream; nothing tells when that is.
    std::thread::sleep(std::time::Duration::from_millis(500));
    for (name, code) in [("other", 0), ("quick", 5)] {
        let spec = ContainerSpec::new(name, image).shell(&format!("exit {code}"));
        let id = cri.run(&pod_id, &pod, &spec).await.unwrap();
        cri.wait_exited(&id).await;
    }
    let told = String::from_utf8(events.wait_with_output().unwrap().stdout).unwrap();
    assert_contains!(told, "quick", "exit code 5");
    assert_eq!(told.lines().count(), 1, "{told}");

    let offered = |line: &[&str]| {
        let mut command = Command::new(node::binary());
        let words = ["__complete", "--", "orlop", "-r", &client.endpoint];
        let output = command.args(words).args(line).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(offered(&["logs", "q"]).starts_with("quick\t"));
    assert!(offered(&["inspectp", "to"]).starts_with("told\t"));
    assert!(offered(&["rmi", "127"]).contains("busybox:1"));
    assert!(
        offered(&["rm", &pod_id[..4]]).is_empty(),
        "no container begins so"
    );
    assert!(offered(&["po"]).contains("pods\tList pods"));
    world.finish().await;
}

#[test]
fn manual_pages_and_completions_come_from_the_definitions() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    let made = Command::new(node::binary()).arg("man").arg(&pages).status();
    assert!(made.unwrap().success());
    let page = |name: &str| fs::read_to_string(pages.join(name)).unwrap();
    assert!(page("orlop.1").contains("orlop\\-logs") || page("orlop.1").contains("logs"));
    assert!(page("orlop-network-gc.1").contains("\\-\\-dry\\-run"));
    for shell in ["bash", "zsh", "fish"] {
        let script = Command::new(node::binary())
            .args(["completion", shell])
            .output()
            .unwrap();
        let script = String::from_utf8(script.stdout).unwrap();
        assert!(
            script.contains("__complete") && !script.contains("@NAME@"),
            "{shell}"
        );
    }
    // bash itself takes it, and offers what the definitions say.
    let bash = Command::new("bash")
        .args(["--norc", "-c"])
        .arg(
            "source <(\"$0\" completion bash); COMP_WORDS=(\"$0\" lo); COMP_CWORD=1; \
             COMP_LINE=\"$0 lo\"; COMP_POINT=${#COMP_LINE}; _orlop_complete; \
             printf '%s\\n' \"${COMPREPLY[@]}\"",
        )
        .arg(node::binary())
        .output()
        .unwrap();
    let offered = String::from_utf8(bash.stdout.clone()).unwrap();
    assert!(
        offered.lines().any(|line| line == "logs"),
        "{offered} {bash:?}"
    );
}
