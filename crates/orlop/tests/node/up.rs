//! `orlop up`: everything in one process.

use std::process::Command;

use orlop_testkit::node::{Ground, binary, keeper_binary};
use orlop_testkit::process::Process;
use orlop_testkit::{ImageBuilder, Registry, machine, skip_unless};

use crate::world::{SOON, ask};

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_manifests_is_all_it_takes() {
    skip_unless!(machine::can_run_pods());
    let scratch = Ground::new();
    let registry = Registry::start();
    let busybox = registry
        .push(&ImageBuilder::busybox().build(), "busybox:1")
        .await;
    let manifests = scratch.subdir("manifests");
    std::fs::write(
        manifests.join("web.yaml"),
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  hostNetwork: true\n  \
             terminationGracePeriodSeconds: 1\n  containers:\n  - {{name: main, image: '{busybox}', \
             command: [sleep, '600']}}\n"
        ),
    )
    .unwrap();
    let config = scratch.path("config.toml");
    let runtime = machine::program("runc")
        .or_else(|_| machine::program("crun"))
        .unwrap();
    std::fs::write(
        &config,
        format!(
            "default_runtime = \"test\"\n[nri]\nenable = false\n[network]\nconf_dir = \"{}\"\ncache_dir = \"{}\"\n[keeper]\npath = \"{}\"\ncgroup = \"/{}-keepers\"\n\
             [runtimes.test]\nkind = \"oci\"\npath = \"{}\"\n",
            scratch.subdir("cni").display(),
            scratch.path("cni-cache").display(),
            keeper_binary().display(),
            scratch.id(),
            runtime.display()
        ),
    )
    .unwrap();
    let (root, state) = (scratch.subdir("root"), scratch.run().join("s"));
    let mut command = Command::new(binary());
    command
        .arg("up")
        .arg(&manifests)
        .arg("--config")
        .arg(&config);
    command.arg("--root").arg(&root).arg("--state").arg(&state);
    command.arg("--listen").arg(format!(
        "unix://{}",
        scratch.run().join("cri.sock").display()
    ));
    command.arg("--pod-logs-dir").arg(scratch.subdir("logs"));
    command
        .arg("--cgroup-root")
        .arg(format!("/{}", scratch.id()));
    command.args(["--node-name", "n1"]);
    let log = scratch.path("up.log");
    let mut up = Process::spawn("orlop up", &mut command, &log);
    up.wait_until(SOON, "a ready pod", || {
        std::fs::read_to_string(&log).is_ok_and(|text| {
            text.lines()
                .any(|line| line.starts_with("default/web-n1 Running 1/1 ready"))
        })
    });
    let (status, pods) = ask(&state.join("node.sock"), "GET", "/pods", "");
    assert_eq!(status, 200);
    assert!(pods.contains("web-n1"));
    let ended = up.stop(SOON);
    assert!(ended.success(), "{}", up.log());
    let left = orlop_testkit::leaks::processes(scratch.id(), &[]);
    let containers: Vec<_> = left
        .iter()
        .filter(|leak| format!("{leak:?}").contains("sleep"))
        .collect();
    assert!(containers.is_empty(), "{containers:?}");
}
