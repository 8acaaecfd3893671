//! Whatever a plugin or a configuration does: a clear error, and no leak.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use orlop_network::{Attachment, ErrorKind, InProcess, Networks, Status};
use orlop_testkit::assert_contains;

use crate::support::Node;

/// A node whose only network has one plugin: this script.
fn node(script: &str) -> (Node, Networks) {
    node_with(script, "1.0.0")
}

fn node_with(script: &str, version: &str) -> (Node, Networks) {
    let node = Node::new();
    let bin = node.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let log = node.path("log").display().to_string();
    let text = format!("#!/bin/sh\necho $CNI_COMMAND >> {log}\n{script}\n");
    std::fs::write(bin.join("custom"), text).unwrap();
    std::fs::set_permissions(bin.join("custom"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let conf = r#"{"cniVersion":"VERSION","name":"net","plugins":[{"type":"custom"}]}"#;
    node.write_conf("10-net.conflist", &conf.replace("VERSION", version));
    let networks = reopen(&node);
    (node, networks)
}

fn reopen(node: &Node) -> Networks {
    let mut config = node.config(InProcess::Auto);
    config.bin_dirs = vec![node.path("bin")];
    config.plugin_timeout = Duration::from_secs(1);
    config.status_grace = Duration::ZERO;
    Networks::open(config).unwrap()
}

fn log(node: &Node) -> Vec<String> {
    let text = std::fs::read_to_string(node.path("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Attaches a pod, which must fail; nothing may stay but what cannot be undone.
fn fail(node: &Node, networks: &Networks) -> (ErrorKind, String) {
    let pod = node.pod("a");
    let error = node.refusal(networks, &pod);
    (error.kind(), error.with_causes())
}

#[test]
fn every_failure_names_network_plugin_verb_and_reason() {
    let on_add = |what: &str| format!("[ $CNI_COMMAND = ADD ] || exit 0; {what}");
    for (script, kind, said) in [
        (
            r#"echo '{"code":7,"msg":"no luck","details":"none"}'; exit 1"#,
            ErrorKind::Plugin,
            "no luck: none (code 7)",
        ),
        (
            r#"echo '{"code":11,"msg":"later"}'; exit 1"#,
            ErrorKind::TryAgain,
            "later",
        ),
        (
            "echo broken pipe >&2; exit 9",
            ErrorKind::Plugin,
            "it exited with 9: broken pipe",
        ),
        ("kill -SEGV $$", ErrorKind::Plugin, "signal 11"),
        ("echo garbage", ErrorKind::Plugin, "\"garbage\""),
        ("true", ErrorKind::Plugin, "nothing"),
        (
            r#"echo '{"cniVersion":"1.0.0"}'"#,
            ErrorKind::Plugin,
            "no IP address",
        ),
        (
            r#"echo '{"cniVersion":"8.0.0"}'"#,
            ErrorKind::Plugin,
            "\"8.0.0\" is not supported",
        ),
        (
            r#"echo '{"cniVersion":"1.0.0","ips":[{"address":"ten"}]}'"#,
            ErrorKind::Plugin,
            "ten",
        ),
        ("sleep 30", ErrorKind::Timeout, "timed out after 1s"),
    ] {
        let (node, networks) = std::thread::spawn({
            let script = on_add(script);
            move || node(&script)
        })
        .join()
        .unwrap();
        let (got, message) = fail(&node, &networks);
        assert_eq!(got, kind, "{script}: {message}");
        assert!(message.contains(said), "{script}: {message}");
        assert_contains!(message, "network \"net\": plugin custom failed at ADD");
        assert_eq!(log(&node), ["ADD", "DEL"], "{script}: it was told to undo");
        assert!(node.block(networks.list()).unwrap().is_empty());
    }
}

#[test]
fn a_missing_plugin_is_named_in_status_too() {
    let (node, networks) = node("true");
    std::fs::remove_file(node.path("bin/custom")).unwrap();
    let (_, message) = fail(&node, &networks);
    assert_contains!(message, "no such program in", "/bin");
    // It never ran: there is nothing to be undone, now or once it is there.
    assert!(node.block(networks.list()).unwrap().is_empty());
    let pod = node.pod("a");
    node.block(networks.detach_noted(&pod.attachment)).unwrap();
    let Status::NotReady { message, .. } = node.block(networks.status()) else {
        panic!("ready without its plugin")
    };
    assert!(message.contains("custom"), "{message}");
}

#[test]
fn what_cannot_be_undone_is_kept_and_retried() {
    let (node, networks) = node("[ $CNI_COMMAND = ADD ] || [ -e $0.fixed ]");
    let (_, _) = fail(&node, &networks);
    assert_eq!(
        node.block(networks.list()).unwrap().len(),
        1,
        "it is not forgotten"
    );
    let report = node.block(networks.gc(|_| false)).unwrap();
    assert_eq!(report.failed.len(), 1);

    std::fs::write(node.path("bin/custom.fixed"), "").unwrap();
    // Another daemon goes on with it.
    drop(networks);
    let networks = reopen(&node);
    let report = node.block(networks.gc(|_| false)).unwrap();
    assert_eq!((report.released.len(), report.failed.len()), (1, 0));
    assert!(node.block(networks.list()).unwrap().is_empty());
}

#[test]
fn the_plugins_own_status_decides_and_heals() {
    let script = r#"[ $CNI_COMMAND != STATUS ] || [ -e $0.up ] || { echo '{"code":50,"msg":"controller unreachable"}'; exit 1; }"#;
    let (node, networks) = node_with(script, "1.1.0");
    let Status::NotReady { message, .. } = node.block(networks.status()) else {
        panic!("ready against the plugin's word")
    };
    assert!(message.contains("controller unreachable"), "{message}");
    std::fs::write(node.path("bin/custom.up"), "").unwrap();
    orlop_testkit::block_until!(
        Duration::from_secs(10),
        node.block(networks.status()).is_ready(),
        "it never got ready"
    );
}

#[test]
fn the_configuration_is_watched_and_a_broken_one_keeps_the_last_good() {
    let node = Node::new();
    let networks = node.open(InProcess::Always);
    assert!(!node.block(networks.status()).is_ready());
    let wait = |what: &str, until: &dyn Fn() -> bool| {
        orlop_testkit::block_until!(Duration::from_secs(15), until(), "{what}");
    };
    let conf = r#"{"cniVersion":"1.0.0","name":"NAME","plugins":[{"type":"loopback"},{"type":"ptp",
        "ipam":{"type":"host-local","dataDir":"DATA","subnet":"10.7.0.0/24"}}]}"#;
    node.write_conf("10-a.conflist", &conf.replace("NAME", "first"));
    wait("a new directory is found", &|| {
        networks.names() == ["first"]
    });
    assert!(node.block(networks.status()).is_ready());

    node.write_conf("10-a.conflist", "{ broken");
    let warned = || match node.block(networks.status()) {
        Status::Ready { warnings } => warnings.iter().any(|w| w.contains("10-a.conflist")),
        Status::NotReady { .. } => false,
    };
    wait("the broken file is told", &warned);
    assert_eq!(networks.names(), ["first"]);

    node.write_conf("05-b.conflist", &conf.replace("NAME", "second"));
    wait("the first one by name wins", &|| {
        networks.names() == ["second"]
    });
    orlop_fs::remove_tree(&node.path("net.d")).unwrap();
    wait("nothing is left", &|| networks.names().is_empty());
}

#[test]
fn a_pod_cidr_from_the_control_plane_makes_the_network() {
    let node = Node::new();
    let mut config = node.config(InProcess::Always);
    let template = r#"{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"bridge","bridge":"br0",
        "ipam":{"type":"host-local","dataDir":"DATA","ranges":[{{.PodCIDRRanges}}],"routes":[{{.Routes}}]}}]}"#;
    let data = node.path("addresses").display().to_string();
    std::fs::write(node.path("template"), template.replace("DATA", &data)).unwrap();
    config.conf_template = Some(node.path("template"));
    let networks = Networks::open(config).unwrap();
    assert!(node.block(networks.set_pod_cidr("10.9.8.7")).is_err());
    node.block(networks.set_pod_cidr("10.9.8.0/24,fd98::/64"))
        .unwrap();
    let pod = node.pod("a");
    let network = node.attach(&networks, &pod);
    let ips: Vec<_> = network.ips.iter().map(ToString::to_string).collect();
    assert_eq!(ips, ["10.9.8.2", "fd98::2"]);
}

#[test]
fn a_namespace_that_is_not_there_is_told_before_anything_is_done() {
    let (node, networks) = node("true");
    let pod = Attachment::new("a".parse().unwrap(), node.path("nowhere"));
    let error = node.block(networks.attach(pod)).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert!(log(&node).is_empty() && node.block(networks.list()).unwrap().is_empty());
}
