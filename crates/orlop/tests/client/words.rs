//! The client commands on an endpoint that isn't ours: crictl's words do what they do there.

use std::fs;

use std::process::{Command, Stdio};

use orlop_testkit::node::{self, Client};
use orlop_testkit::{Node, Registry, assert_contains, machine, skip_unless};

/// Columns of a row.
fn words(row: &str) -> Vec<&str> {
    row.split("  ")
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect()
}

#[tokio::test]
async fn a_container_is_driven_by_crictls_words() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(node::containerd_program().map(drop));
    let (_registry, image) = Registry::with_busybox().await;
    let node = Node::containerd().start().await;
    let client = node.client();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let pod_config = node.pod("words").config();
    let pod_file = file(
        "pod.json",
        serde_json::to_string(&orlop_cri_api::json::view(&pod_config)).unwrap(),
    );
    let container_file = file(
        "container.yaml",
        format!(
            "metadata: {{name: web}}\n\
             image: {{image: '{image}'}}\n\
             command: [sh, -c, 'echo one; echo two >&2; trap \"exit 3\" TERM; while :; do sleep 0.1; done']\n\
             envs: [{{key: SECRET, value: plain text}}]\n\
             log_path: web.log\n"
        ),
    );

    // The runtime.
    assert!(
        client
            .out(&["version"])
            .contains("RuntimeName:  containerd")
    );
    let info = client.json(&["info"]);
    assert_eq!(info["status"]["conditions"][0]["type"], "RuntimeReady");
    assert!(info["config"].is_object(), "the runtime's own part is JSON");
    let told = client.error(&["events", "--since", "10m"]);
    assert_contains!(told, "GetContainerEvents not implemented");

    // Images.
    let pulled = client.out(&["pull", &image]);
    let image_id = pulled.trim().rsplit(' ').next().unwrap().to_owned();
    assert!(image_id.starts_with("sha256:"), "{pulled}");
    assert!(client.out(&["images", "-q"]).contains(&image_id));
    assert_eq!(
        client.json(&["inspecti", &image])["status"]["id"],
        image_id.as_str()
    );
    assert!(client.json(&["imagefsinfo"])["status"]["imageFilesystems"].is_array());
    assert!(
        client
            .error(&["inspecti", "nobody/none:1"])
            .contains("nobody/none:1")
    );

    // A pod and a container, by names and beginnings of ids.
    let pod = client.out(&["runp", &pod_file]).trim().to_owned();
    let id = client
        .out(&["create", &pod[..8], &container_file, &pod_file])
        .trim()
        .to_owned();
    assert_eq!(
        client.out(&["ps", "-q"]),
        "",
        "a created container doesn't run"
    );
    assert_eq!(client.out(&["ps", "-a", "-q", "--no-trunc"]).trim(), id);
    assert_eq!(client.out(&["start", "web"]).trim(), id);
    let table = client.out(&["ps"]);
    let rows: Vec<_> = table.lines().map(words).collect();
    assert_eq!(rows[0][..4], ["CONTAINER", "IMAGE", "CREATED", "STATE"]);
    assert_eq!(
        (rows[1][0], rows[1][3], rows[1][4]),
        (&id[..13], "Running", "web")
    );
    let pods = client.json(&["pods", "-o", "json", "--name", "^words$"]);
    assert_eq!(pods["items"][0]["id"], pod.as_str());
    assert!(
        pods["items"][0]["createdAt"].is_string(),
        "64 bits are text"
    );
    assert_eq!(pods["items"][0]["state"], "SANDBOX_READY");
    assert!(
        client
            .out(&["pods", "-o", "yaml"])
            .contains("state: SANDBOX_READY")
    );
    assert!(client.error(&["stop", "nobody"]).contains("nobody"));

    // Looking into it.
    let status = client.json(&["inspect", "web"]);
    assert_eq!(status["status"]["state"], "CONTAINER_RUNNING");
    assert_eq!(status["status"]["finishedAt"], "0001-01-01T00:00:00Z");
    assert!(status["info"]["pid"].is_number());
    let template = ["inspect", "--output", "go-template", "--template"];
    let shown = client.out(
        &[
            &template[..],
            &["{{.status.metadata.name}}: {{.info.pid}}", &id],
        ]
        .concat(),
    );
    assert_eq!(shown.trim(), format!("web: {}", status["info"]["pid"]));
    let unknown = client.error(&[&template[..], &["{{.status.oops}}", &id]].concat());
    assert!(unknown.contains("unknown key `oops`"), "{unknown}");
    assert_eq!(
        client.json(&["inspectp", "words"])["status"]["id"],
        pod.as_str()
    );
    assert_eq!(
        client.json(&["stats", "-o", "json"])["stats"][0]["attributes"]["id"],
        id.as_str()
    );

    // Commands in it: output apart, exit codes passed on.
    let output = client.run(&[
        "exec",
        "-s",
        "web",
        "sh",
        "-c",
        "echo $SECRET; echo err >&2; exit 5",
    ]);
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(
        (&output.stdout[..], &output.stderr[..]),
        (&b"plain text\n"[..], &b"err\n"[..])
    );

    // Its log.
    let logs = client.run(&["logs", "web"]);
    assert_eq!(
        (&logs.stdout[..], &logs.stderr[..]),
        (&b"one\n"[..], &b"two\n"[..])
    );
    let follower = client
        .command(&["logs", "-f", "web"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();

    // Its end.
    assert!(client.error(&["rm", "web"]).contains("--force"));
    client.out(&["update", "--memory", "123000000", "web"]);
    assert_eq!(client.out(&["stop", "-t", "10", "web"]).trim(), id);
    assert_eq!(follower.wait_with_output().unwrap().stdout, b"one\n");
    assert_eq!(client.json(&["inspect", &id])["status"]["exitCode"], 3);
    assert!(node.pod("words").logs().join("web.log").exists());
    assert_eq!(client.out(&["rm", &id]).trim(), id);
    assert!(
        !node.pod("words").logs().join("web.log").exists(),
        "the log goes, too"
    );
    assert!(client.error(&["rmp", &pod]).contains("--force"));
    let removed = client.out(&["rmp", "-f", &pod]);
    assert_eq!(
        removed,
        format!("Stopped sandbox {pod}\nRemoved sandbox {pod}\n")
    );
    assert_eq!(client.out(&["rmi", &image]), format!("Deleted: {image}\n"));
    node.finish().await;
}

#[tokio::test]
async fn a_run_that_fails_leaves_no_pod() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(node::containerd_program().map(drop));
    let node = Node::containerd().start().await;
    let client = node.client();
    let directory = tempfile::tempdir().unwrap();
    let pod = directory.path().join("pod.json");
    let config = node.pod("failed").config();
    fs::write(
        &pod,
        serde_json::to_string(&orlop_cri_api::json::view(&config)).unwrap(),
    )
    .unwrap();
    let container = directory.path().join("container.json");
    fs::write(
        &container,
        r#"{"metadata": {"name": "a"}, "image": {"image": "127.0.0.1:1/none:1"}}"#,
    )
    .unwrap();
    let line = ["run", container.to_str().unwrap(), pod.to_str().unwrap()];
    assert!(client.error(&line).contains("127.0.0.1:1/none:1"));
    assert_eq!(client.out(&["pods", "-q"]), "");
    node.finish().await;
}

#[test]
fn without_a_runtime_it_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let client = Client::at(&directory.path().join("none.sock"));
    assert!(
        client
            .error(&["ps"])
            .contains("check that the runtime is running")
    );
    let client = Client {
        endpoint: "tcp://10.0.0.1:1".to_owned(),
        ..client
    };
    assert!(client.error(&["ps"]).contains("no authentication"));
    // Somebody who listens and never answers.
    let socket = directory.path().join("mute.sock");
    let _mute = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let client = Client::at(&socket);
    let error = client.error(&["--timeout", "300ms", "ps"]);
    assert!(error.contains("increase --timeout"), "{error}");
    let output = Command::new(node::binary())
        .args(["log-level", "--socket"])
        .arg(format!(
            "unix://{}",
            directory.path().join("none.sock").display()
        ))
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("check that the daemon is running"),
        "{error}"
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("crictl.yaml");
    let link = directory.path().join("crictl");
    std::os::unix::fs::symlink(node::binary(), &link).unwrap();
    let crictl = |line: &[&str]| {
        Command::new(&link)
            .args(["--config", config.to_str().unwrap()])
            .args(line)
            .output()
            .unwrap()
    };
    // Under crictl's name `config` is crictl's.
    assert!(
        crictl(&["config", "--set", "timeout=7,debug=true"])
            .status
            .success()
    );
    assert_eq!(crictl(&["config", "--get", "timeout"]).stdout, b"7\n");
    assert!(fs::read_to_string(&config).unwrap().contains("debug: true"));

    let mut listing = Command::new(&link)
        .args(["--config", config.to_str().unwrap(), "config", "--list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(listing.stdout.take());
    let output = listing.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}
