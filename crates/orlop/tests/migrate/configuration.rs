//! Their configuration becomes one of orlop's, which is a good one.

use std::fs;
use std::process::Command;

use orlop_testkit::node::{binary, containerd_program, crio_program};
use orlop_testkit::process::{ended, run, run_for_text};
use orlop_testkit::{Node, Scratch, assert_contains, skip_unless};
use serde_json::Value;

use crate::{check, findings, migrate, migrated};

#[test]
fn what_containerd_prints_becomes_a_good_configuration_that_doctor_likes() {
    skip_unless!(containerd_program().map(drop));
    let scratch = Scratch::new();
    let mut default = Command::new(containerd_program().unwrap());
    let printed = ended(default.args(["config", "default"])).out;
    let theirs = scratch.path("theirs.toml");
    let printed = printed.replace("/etc/cni/net.d", scratch.path("net.d").to_str().unwrap());
    fs::write(&theirs, &printed).unwrap();
    let dir = scratch.subdir("etc");
    let ours = dir.join("config.toml");
    let words = ["--write", ours.to_str().unwrap()];
    let report = migrated("containerd", &theirs, &words);
    let lost = report.split("NO EQUIVALENT").nth(1).unwrap();
    let lost = lost.split("THIS NODE").next().unwrap();
    assert!(!lost.contains("unknown key"), "{lost}");
    let written = fs::read_to_string(&ours).unwrap();
    // What version 2 lets pods do that version 1 did not.
    let ports = if printed.contains("\nversion = 2\n") {
        "unprivileged_ports = false"
    } else {
        "unprivileged_ports = true"
    };
    for line in [
        "default_runtime = \"runc\"",
        "cgroup_driver = \"cgroupfs\"",
        ports,
        "max_log_line = 16384",
    ] {
        assert!(written.contains(line), "{line} is not in\n{written}");
    }
    check(&ours);

    // Nothing is written over, whatever was asked.
    let again = migrate("containerd", &theirs, &words);
    assert_eq!(again.code, Some(1));
    assert_contains!(again.err, "is not overwritten");
    assert_eq!(fs::read_to_string(&ours).unwrap(), written);
}

#[test]
fn all_that_crio_prints_is_known_and_becomes_a_good_configuration() {
    skip_unless!(crio_program().map(drop));
    let scratch = Scratch::new();
    let mut default = Command::new(crio_program().unwrap());
    let printed = run(default.args(["--config", "", "--config-dir", "", "config", "--default"]));
    let theirs = scratch.path("crio.conf");
    fs::write(&theirs, &printed).unwrap();
    let dir = scratch.subdir("etc");
    let ours = dir.join("config.toml");
    let report = migrated("crio", &theirs, &["--write", ours.to_str().unwrap()]);
    assert!(!report.contains("unknown key"), "{report}");
    check(&ours);
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
    migrated("containerd", &theirs, &["--write", ours.to_str().unwrap()]);
    let written = fs::read_to_string(&ours).unwrap();
    let node = Node::orlop().config(&written).start().await;
    for finding in findings(&node).as_array().unwrap() {
        assert_ne!(finding["state"], "problem", "{finding}");
    }
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
        assert_eq!(output.code, Some(1), "{name}");
        assert!(output.err.contains(words), "{name}: {output:?}");
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
    assert_eq!(output.code, Some(1));
    assert_contains!(output.err, "network.conf_dir");
    assert!(!target.exists());
}

#[test]
fn a_docker_node_s_cri_dockerd_is_taken_over_into_a_relative_file() {
    let scratch = Scratch::new();
    let unit = scratch.path("cri-docker.service");
    let text_of_unit = format!(
        "[Service]\nExecStart=/usr/bin/cri-dockerd --network-plugin=cni \\\n  --cni-conf-dir={} --hairpin-mode=hairpin-veth\n",
        scratch.path("net.d").display()
    );
    fs::write(&unit, text_of_unit).unwrap();
    let command = |flags: &std::path::Path| {
        let mut command = Command::new(binary());
        command
            .current_dir(scratch.subdir("etc"))
            .args(["migrate", "--from=docker", "--kubelet-config=/dev/null"])
            .args(["--config=/nonexistent/daemon.json", "--cri-dockerd-flags"])
            .arg(flags);
        command
    };
    let report = run_for_text(command(&unit).args(["--write", "orlop.toml"]));
    assert_contains!(
        report,
        "cri-docker.service:3: hairpin-mode = \"hairpin-veth\""
    );
    let written = fs::read_to_string(scratch.path("etc/orlop.toml")).unwrap();
    let line = format!("conf_dir = \"{}\"", scratch.path("net.d").display());
    assert!(written.contains(&line), "{written}");
    let missing = ended(&mut command("/nonexistent/unit".as_ref()));
    assert_eq!(missing.code, Some(1));
    assert_contains!(missing.err, "/nonexistent/unit");
}

#[test]
fn crio_s_policy_and_registries_are_judged_before_the_move() {
    let scratch = Scratch::new();
    let policy = scratch.path("policy.json");
    fs::write(&policy, "{\"default\": [{\"type\": \"odd\"}]}").unwrap();
    let file = scratch.path("crio.conf");
    let theirs = format!(
        "[crio.image]\nsignature_policy = \"{}\"\n",
        policy.display()
    );
    fs::write(&file, theirs).unwrap();
    let output = migrate("crio", &file, &["-o", "json"]);
    let report: Value = serde_json::from_str(&output.out).unwrap();
    let node = report["node"].as_array().unwrap();
    let problem = node.iter().find(|finding| finding["area"] == "signatures");
    let problem = problem.expect("the policy is looked at");
    assert_eq!(problem["state"], "problem");
    let told = problem["text"].as_str().unwrap();
    assert!(told.contains("policy.json"), "{told}");
}
