//! What becomes of attachments: joined, kept over restarts, undone whatever
//! happened in between, by whichever implementation made them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use orlop_network::{
    Cidr, DefaultNetwork, ErrorKind, InProcess, Networks, PodNetwork, Protocol, Status, netns,
};

use crate::support::{Node, PLUGINS, filter_rules, mapped, masqueraded, noted, port, sh};

const CONF: &str = r#"{
    "cniVersion": "1.1.0", "name": "net",
    "plugins": [
        {"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "ipam": {
            "type": "host-local", "dataDir": "DATA",
            "ranges": [[{"subnet": "10.77.0.0/24"}], [{"subnet": "fd77::/64"}]],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "firewall"}
    ]}"#;

fn node() -> (Node, Networks) {
    Node::with(CONF)
}

/// Nothing of any pod is left.
fn assert_nothing_left(node: &Node) {
    assert_eq!(masqueraded(), Vec::<String>::new());
    assert_eq!(mapped(), Vec::<String>::new());
    assert_eq!(noted(), Vec::<String>::new());
    assert_eq!(node.reserved("net"), Vec::<String>::new());
    let rules = filter_rules();
    assert!(
        !rules.contains("10.77.0") && !rules.contains("fd77") && !rules.contains("id:"),
        "{rules}"
    );
    let journal = node.path("state").join("attachments");
    assert_eq!(std::fs::read_dir(journal).unwrap().count(), 0);
    let cache = node.path("cache").join("results");
    assert_eq!(std::fs::read_dir(cache).into_iter().flatten().count(), 0);
    node.interfaces_settle(&["br0"]);
}

#[test]
fn attaching_again_gives_the_same_over_a_restart() {
    let (node, networks) = node();
    let pod = node.pod("a");
    let first = node.attach(&networks, &pod);
    assert_eq!(first.ips.len(), 2);
    assert_eq!(first.primary_ip().unwrap().to_string(), "10.77.0.2");
    assert_eq!(node.attach(&networks, &pod), first);

    drop(networks);
    let networks = node.open(InProcess::Always);
    assert_eq!(node.attach(&networks, &pod), first);
    assert_eq!(
        node.block(networks.list()).unwrap()[0].result.as_ref(),
        Some(&first)
    );
    node.check(&networks, &pod, &first);

    let mut changed = pod.attachment.clone();
    changed
        .port_mappings
        .push(port(8080, 80, Protocol::Tcp, ""));
    let error = node.block(networks.attach(changed)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");

    node.detach(&networks, &pod, &first);
    node.detach(&networks, &pod, &first);
    node.block(networks.detach(&pod.attachment, None)).unwrap();
    assert_nothing_left(&node);
}

#[test]
fn simultaneous_requests_for_one_pod_join() {
    let (node, networks) = node();
    let pod = node.pod("a");
    let results = node.block(async {
        let both = (0..4).map(|_| {
            let networks = networks.clone();
            let attachment = pod.attachment.clone();
            tokio::spawn(async move { networks.attach(attachment).await.unwrap() })
        });
        let mut results = Vec::new();
        for task in both.collect::<Vec<_>>() {
            results.push(task.await.unwrap());
        }
        results
    });
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(node.reserved("net").len(), 2);
}

#[test]
fn a_request_given_up_is_carried_to_its_end() {
    let (node, networks) = node();
    let pod = node.pod("a");
    node.block(async {
        let attach = networks.attach(pod.attachment.clone());
        let _ = tokio::time::timeout(std::time::Duration::from_micros(300), attach).await;
    });
    let network = node.attach(&networks, &pod);
    assert_eq!(
        network.primary_ip().unwrap().to_string(),
        "10.77.0.2",
        "it was attached only once"
    );
}

#[test]
fn detaching_works_when_the_namespace_is_gone() {
    let (node, networks) = node();
    let mut pod = node.pod("a");
    pod.map(8080, 80, Protocol::Tcp);
    let network = node.attach(&networks, &pod);
    let attachment = pod.die();
    node.block(networks.detach(&attachment, Some(&network)))
        .unwrap();
    assert_nothing_left(&node);
}

/// ADD by one implementation, DEL by the other.
fn cross(adding: InProcess, removing: InProcess) {
    if !Path::new(PLUGINS).join("bridge").exists() {
        orlop_testkit::skip!("needs the package containernetworking-plugins");
    }
    let node = Node::new();
    // The programs know versions up to 1.0.0.
    node.write_conf("10-net.conflist", &CONF.replace("1.1.0", "1.0.0"));
    let mut pod = node.pod("a");
    pod.map(8080, 80, Protocol::Tcp);
    let networks = node.open(adding);
    let network = node.attach(&networks, &pod);
    let by_programs = adding == InProcess::Never;
    assert_eq!(filter_rules().contains("CNI-DN-"), by_programs);
    assert_eq!(mapped().is_empty(), by_programs);
    assert_eq!(noted().is_empty(), by_programs);
    drop(networks);
    let networks = node.open(removing);
    node.detach(&networks, &pod, &network);
    assert_nothing_left(&node);
    assert!(!filter_rules().contains("CNI-DN-"));
}

#[test]
fn programs_undo_what_was_done_in_process() {
    cross(InProcess::Always, InProcess::Never);
}

#[test]
fn what_programs_did_is_undone_in_process() {
    cross(InProcess::Never, InProcess::Always);
}

#[test]
fn an_attempt_cut_short_is_undone_before_the_next() {
    let (node, networks) = node();
    let pod = node.pod("a");
    let network = node.attach(&networks, &pod);
    // As a crash between ADD and the note of its end would leave it.
    std::fs::remove_file(node.path("state/attachments/a.done")).unwrap();
    drop(networks);
    let networks = node.open(InProcess::Always);
    let again = node.attach(&networks, &pod);
    assert_ne!(again.ips, network.ips, "the addresses go round");
    assert_eq!(node.reserved("net").len(), 2);
    node.block(networks.detach(&pod.attachment, None)).unwrap();
    assert_nothing_left(&node);
}

#[test]
fn garbage_is_collected_and_the_living_are_left_alone() {
    let (node, networks) = node();
    let [kept, lost, orphan] = ["kept", "lost", "orphan"].map(|id| node.pod(id));
    let network = node.attach(&networks, &kept);
    node.attach(&networks, &lost);
    node.attach(&networks, &orphan);
    // An address nobody wrote down: as after a loss of the state directory.
    for name in ["orphan.intent", "orphan.done"] {
        std::fs::remove_file(node.path("state/attachments").join(name)).unwrap();
    }
    std::fs::remove_file(node.path("cache/results/net-orphan-eth0")).unwrap();

    let orphans = node
        .block(networks.orphans(|id| id.as_str() == "kept"))
        .unwrap();
    let orphans: Vec<_> = orphans
        .iter()
        .map(|orphan| {
            (
                orphan.id.as_str(),
                orphan.networks.clone(),
                orphan.ips.len(),
            )
        })
        .collect();
    assert_eq!(
        orphans,
        [("lost", vec!["net".to_owned()], network.ips.len())]
    );
    let report = node.block(networks.gc(|id| id.as_str() == "kept")).unwrap();
    assert_eq!(
        (report.released, report.failed),
        (vec!["lost".to_owned()], vec![])
    );
    let mut own: Vec<_> = network.ips.iter().map(ToString::to_string).collect();
    own.sort();
    assert_eq!(node.reserved("net"), own);
    node.check(&networks, &kept, &network);
}

#[test]
fn a_pod_is_attached_again_at_once() {
    let (node, networks) = node();
    let pod = node.pod("a");
    for _ in 0..3 {
        let network = node.attach(&networks, &pod);
        node.check(&networks, &pod, &network);
        node.detach(&networks, &pod, &network);
    }
    assert_nothing_left(&node);
}

#[test]
fn a_host_port_belongs_to_one_pod() {
    let (node, networks) = node();
    let [mut a, mut b] = ["a", "b"].map(|id| node.pod(id));
    a.map(8080, 80, Protocol::Tcp);
    b.map(8080, 80, Protocol::Tcp);
    let network = node.attach(&networks, &a);
    // The holder is known over a restart.
    let networks = {
        drop(networks);
        node.open(InProcess::Always)
    };
    let error = node.refusal(&networks, &b);
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(
        error
            .to_string()
            .contains("8080/tcp is already used by pod default/a (a)"),
        "{error}"
    );
    node.detach(&networks, &a, &network);
    node.attach(&networks, &b);
}

#[test]
fn an_exhausted_subnet_is_told_and_leaks_nothing() {
    let node = Node::new();
    node.write_conf(
        "10-net.conflist",
        &CONF.replace("10.77.0.0/24", "10.77.0.0/30"),
    );
    let networks = node.open(InProcess::Always);
    let [a, b] = ["a", "b"].map(|id| node.pod(id));
    let network = node.attach(&networks, &a);
    let error = node.refusal(&networks, &b);
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert_eq!(node.reserved("net").len(), 2, "only the first pod's");
    assert_eq!(node.block(networks.list()).unwrap().len(), 1);
    node.detach(&networks, &a, &network);
    node.attach(&networks, &b);
}

#[test]
fn a_bridge_name_that_is_something_else_is_told() {
    let (node, networks) = node();
    sh("ip link add br0 type veth peer name other");
    let pod = node.pod("a");
    let error = node.refusal(&networks, &pod);
    assert!(
        error
            .to_string()
            .contains("\"br0\" already exists but is not a bridge"),
        "{error}"
    );
    assert_eq!(node.reserved("net"), Vec::<String>::new());

    sh("ip link del br0; ip link add br0 type bridge; ip addr add 192.168.9.1/24 dev br0");
    let error = node.refusal(&networks, &pod);
    assert!(
        error
            .to_string()
            .contains("already has an IP address different from"),
        "{error}"
    );
    assert_nothing_left(&node);
}

#[test]
fn many_pods_at_once_get_addresses_of_their_own() {
    const PODS: usize = 60;
    let (node, networks) = node();
    let pods: Vec<_> = (0..PODS).map(|n| node.pod(&format!("pod{n}"))).collect();
    let networks = Arc::new(networks);
    let results: Vec<PodNetwork> = node.block(async {
        let tasks = pods.iter().map(|pod| {
            let networks = Arc::clone(&networks);
            let attachment = pod.attachment.clone();
            tokio::spawn(async move { networks.attach(attachment).await.unwrap() })
        });
        let mut results = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            results.push(task.await.unwrap());
        }
        results
    });
    let distinct: BTreeSet<_> = results.iter().flat_map(|network| &network.ips).collect();
    assert_eq!(distinct.len(), 2 * PODS);
    node.block(async {
        let tasks = pods.iter().zip(results).map(|(pod, network)| {
            let networks = Arc::clone(&networks);
            let attachment = pod.attachment.clone();
            tokio::spawn(async move { networks.detach(&attachment, Some(&network)).await.unwrap() })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
    assert_nothing_left(&node);
}

#[test]
fn without_any_configuration_the_default_network_serves() {
    let node = Node::new();
    let mut config = node.config(InProcess::Never);
    config.default_network = Some(DefaultNetwork {
        subnets: vec![
            "10.85.0.0/16".parse::<Cidr>().unwrap(),
            "fd85::/64".parse().unwrap(),
        ],
        data_dir: node.path("addresses"),
        mtu: Some(1400),
        ..DefaultNetwork::default()
    });
    let networks = Networks::open(config).unwrap();
    assert!(node.block(networks.status()).is_ready());
    let pod = node.pod("a");
    let network = node.attach(&networks, &pod);
    let ips: Vec<_> = network.ips.iter().map(ToString::to_string).collect();
    assert_eq!(ips, ["10.85.0.2", "fd85::2"]);
    assert!(pod.sh("ip link show eth0").contains("mtu 1400"));
    pod.sh("busybox ping -c1 -W2 10.85.0.1");
}

#[test]
fn a_namespace_is_pinned_and_let_go() {
    let node = Node::new();
    let path = node.path("netns/pod1");
    let namespace = netns::create_pinned(&path).unwrap();
    drop(namespace);
    let up = sh(&format!(
        "nsenter --net={} ip -o addr show dev lo",
        path.display()
    ));
    assert!(up.contains("127.0.0.1/8"), "{up}");
    assert!(
        netns::create_pinned(&path).is_err(),
        "never over another one"
    );
    netns::remove_pin(&path).unwrap();
    netns::remove_pin(&path).unwrap();
    assert!(!path.exists());
}

#[test]
fn what_was_made_before_a_plugin_refused_its_configuration_is_undone_for_good() {
    let node = Node::new();
    let broken = CONF.replace(
        r#"{"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "firewall"}"#,
        r#"{"type": "firewall"},
        {"type": "portmap", "markMasqBit": 77, "capabilities": {"portMappings": true}}"#,
    );
    assert_ne!(broken, CONF);
    node.write_conf("10-net.conflist", &broken);
    let networks = node.open(InProcess::Always);
    let pod = node.pod("a");
    let error = node.refusal(&networks, &pod);
    assert!(error.to_string().contains("MasqMarkBit"), "{error}");
    // Not kept to be undone by a plugin that will refuse that, too.
    assert_nothing_left(&node);
    let Status::NotReady { message, .. } = node.block(networks.status()) else {
        panic!("ready with a configuration that no pod can use")
    };
    assert!(message.contains("MasqMarkBit"), "{message}");
}

#[test]
fn a_failure_that_no_status_tells_is_told_until_a_pod_is_attached() {
    let node = Node::new();
    node.write_conf(
        "10-net.conflist",
        &CONF.replace("10.77.0.0/24", "10.77.0.0/30"),
    );
    let networks = node.open(InProcess::Always);
    let warnings = || match node.block(networks.status()) {
        Status::Ready { warnings } => warnings.join("; "),
        Status::NotReady { message, .. } => panic!("pods go on: {message}"),
    };
    let [a, b] = ["a", "b"].map(|id| node.pod(id));
    let network = node.attach(&networks, &a);
    assert_eq!(warnings(), "");
    node.refusal(&networks, &b);
    assert!(warnings().contains("no IP addresses available"));
    node.detach(&networks, &a, &network);
    node.attach(&networks, &b);
    assert_eq!(warnings(), "");
}

#[test]
fn a_bridge_s_name_that_is_something_else_makes_the_node_not_ready() {
    let (node, networks) = node();
    sh("ip link add br0 type veth peer name other");
    let Status::NotReady { message, .. } = node.block(networks.status()) else {
        panic!("ready without its bridge")
    };
    assert!(message.contains("is not a bridge"), "{message}");
}
