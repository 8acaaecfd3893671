//! Starts that fail say why.

use std::process::Command;

use orlop_testkit::node::binary;

fn complaint(configuration: &str, args: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubelet.yaml");
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    std::fs::write(&file, format!("{head}{configuration}")).unwrap();
    let output = Command::new(binary())
        .arg("node")
        .arg("--config")
        .arg(&file)
        .arg("--root-dir")
        .arg(directory.path().join("root"))
        .arg("--control-socket")
        .arg(directory.path().join("s"))
        .args([
            "--container-runtime-endpoint",
            "unix:///nonexistent/cri.sock",
        ])
        .args(args)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn each_mistake_is_named() {
    for (configuration, args, words) in [
        (
            "prot: 1\n",
            &[][..],
            &["kubelet.yaml:3:", "unknown field \"prot\""][..],
        ),
        (
            "port: many\n",
            &[],
            &["kubelet.yaml:3:", "port", "whole number"],
        ),
        (
            "authentication: {webhook: {enabled: true}}\n",
            &[],
            &["authentication.webhook.enabled", "no"],
        ),
        (
            "authorization: {mode: Webhook}\n",
            &[],
            &["authorization.mode", "AlwaysAllow"],
        ),
        ("cgroupDriver: none\n", &[], &["cgroupDriver", "systemd"]),
        (
            "evictionHard: {memory.free: 1Gi}\n",
            &[],
            &["evictionHard", "memory.available"],
        ),
        (
            "imageGCLowThresholdPercent: 90\n",
            &[],
            &["imageGCLowThresholdPercent"],
        ),
        ("staticPodURL: ftp://x\n", &[], &["ftp://x", "http://"]),
        ("", &["--manifest-url-header=x"], &["manifest-url-header"]),
        ("", &[], &["runtime", "/nonexistent/cri.sock"]),
        (
            "registerNode: false\n",
            &[],
            &["the kubelet field registerNode has no effect on a standalone node"],
        ),
    ] {
        let found = complaint(configuration, args);
        for word in words {
            assert!(found.contains(word), "{configuration}: {found}");
        }
    }
}
