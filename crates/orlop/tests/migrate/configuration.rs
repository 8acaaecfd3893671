//! Their configuration becomes one of orlop's, which is a good one.

use std::fs;
use std::process::Command;

use orlop_testkit::{Node, Scratch, machine, node::binary, skip_unless};
use serde_json::Value;

use crate::{migrate, text};

#[test]
fn what_debian_s_containerd_prints_becomes_a_good_configuration_that_doctor_likes() {
    skip_unless!(machine::has_program("containerd"));
    let scratch = Scratch::new();
    let printed = Command::new("containerd")
        .args(["config", "default"])
        .output()
        .unwrap();
    let theirs = scratch.path("theirs.toml");
    let printed =
        text(&printed.stdout).replace("/etc/cni/net.d", scratch.path("net.d").to_str().unwrap());
    fs::write(&theirs, printed).unwrap();
    let dir = scratch.subdir("etc");
    let ours = dir.join("config.toml");
    let words = ["--write", ours.to_str().unwrap()];
    let output = migrate("containerd", &theirs, &words);
    assert!(output.status.success(), "{output:?}");
    let report = text(&output.stdout);
    let lost = report.split("WITHOUT A COUNTERPART").nth(1).unwrap();
    let lost = lost.split("THIS NODE").next().unwrap();
    assert!(!lost.contains("not known here"), "{lost}");
    let written = fs::read_to_string(&ours).unwrap();
    for line in [
        "default_runtime = \"runc\"",
        "cgroup_driver = \"cgroupfs\"",
        "unprivileged_ports = false",
        "max_log_line = 16384",
    ] {
        assert!(written.contains(line), "{line} is not in\n{written}");
    }
    let checked = Command::new(binary())
        .args(["config", "check", "--config"])
        .arg(&ours)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");

    // Nothing is written over, whatever was asked.
    let again = migrate("containerd", &theirs, &words);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("is not overwritten"),
        "{again:?}"
    );
    assert_eq!(fs::read_to_string(&ours).unwrap(), written);
}

#[tokio::test]
async fn doctor_finds_nothing_broken_after_the_move() {
    let scratch = Scratch::new();
    let theirs = scratch.path("theirs.toml");
    fs::write(
        &theirs,
        "version = 3\n\
         [plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'runc'\n\
         [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n\
         [plugins.'io.containerd.cri.v1.images']\ndiscard_unpacked_layers = true\n",
    )
    .unwrap();
    let ours = scratch.subdir("etc").join("config.toml");
    let output = migrate("containerd", &theirs, &["--write", ours.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let written = fs::read_to_string(&ours).unwrap();
    let node = Node::orlop().config(&written).start().await;
    let socket = format!("unix://{}", node.socket().display());
    let output = Command::new(binary())
        .args(["doctor", "--json", "--socket", &socket, "--daemon-config"])
        .arg(node.scratch().path("config.toml"))
        .output()
        .unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    for finding in findings.as_array().unwrap() {
        assert_ne!(finding["state"], "problem", "{finding}");
    }
    assert!(output.status.success(), "{findings:#}");
}

#[test]
fn mistakes_are_told_by_file_and_line_and_nothing_is_written() {
    let scratch = Scratch::new();
    for (from, name, content, words) in [
        (
            "containerd",
            "broken.toml",
            "version = 2\n\n[plugins\n",
            "broken.toml:3",
        ),
        ("containerd", "new.toml", "\nversion = 9\n", "new.toml:2"),
        (
            "containerd",
            "missing.toml",
            "imports = [\"none.toml\"]\n",
            "none.toml",
        ),
        (
            "crio",
            "crio.conf",
            "[crio]\n[crio.runtime]\nlog_level = \n",
            "crio.conf:3",
        ),
        (
            "docker",
            "daemon.json",
            "{\n  \"debug\": true,\n}\n",
            "daemon.json:3",
        ),
        ("docker", "list.json", "[]", "list.json:1"),
    ] {
        let file = scratch.path(name);
        fs::write(&file, content).unwrap();
        let target = scratch.path("config.toml");
        let output = migrate(from, &file, &["--write", target.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        let error = text(&output.stderr);
        assert!(error.contains(words), "{name}: {error}");
        assert!(!target.exists(), "{name}");
    }
    // What can't be a value of ours is told, and leaves nothing.
    let file = scratch.path("relative.toml");
    fs::write(
        &file,
        "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.cni]\nconf_dir = 'net.d'\n",
    )
    .unwrap();
    let target = scratch.path("config.toml");
    let output = migrate("containerd", &file, &["--write", target.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("network.conf_dir"),
        "{output:?}"
    );
    assert!(!target.exists());
}
