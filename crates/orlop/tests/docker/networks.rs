//! Who makes the pods' networks: CNI, the engine, or nobody.

use std::net::{IpAddr, TcpStream};
use std::time::Duration;

use orlop_cri_api::v1::{PodSandboxNetworkStatus, StatusRequest};
use orlop_testkit::{DockerEngine, PodSpec, assert_contains};

use crate::world::{World, eventually, world};

/// A web server, as a script.
const SERVER: &str = "mkdir /www; hostname > /www/name; exec httpd -f -p 80 -h /www";

impl World {
    async fn network(&self, pod_id: &str) -> PodSandboxNetworkStatus {
        let status = self.cri.pod_status(pod_id).await.unwrap();
        status.network.unwrap_or_default()
    }

    /// What a command printed that must succeed.
    async fn output(&self, id: &str, command: &[&str]) -> String {
        let answer = self.cri.exec(id, command).await.unwrap();
        assert_eq!(answer.exit_code, 0, "{command:?}: {answer:?}");
        String::from_utf8(answer.stdout).unwrap()
    }

    /// An address of the pod's network that nobody has.
    async fn service_address(&self, pod_id: &str) -> String {
        let own = self.network(pod_id).await.ip;
        let (network, _) = own.rsplit_once('.').unwrap();
        format!("{network}.77")
    }

    async fn network_is_ready(&self) -> bool {
        let mut runtime = self.cri.runtime();
        let answer = runtime.status(StatusRequest::default()).await.unwrap();
        let status = answer.into_inner().status.unwrap();
        let ready = status
            .conditions
            .into_iter()
            .find(|one| one.r#type == "NetworkReady");
        ready.unwrap().status
    }
}

/// How many ports of a bridge send packets back, and how many there are.
fn hairpins(bridge: &str) -> (usize, usize) {
    let ports = std::fs::read_dir(format!("/sys/class/net/{bridge}/brif")).unwrap();
    let modes: Vec<String> = ports
        .map(|port| std::fs::read_to_string(port.unwrap().path().join("hairpin_mode")).unwrap())
        .collect();
    let on = modes.iter().filter(|mode| mode.trim() == "1").count();
    (on, modes.len())
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engines_bridge_gives_pods_their_network() {
    let engine = || DockerEngine::settings().bridge().start();
    let world = world!(engine(), "network_plugin = \"bridge\"");
    assert!(world.network_is_ready().await);
    let port = free_port();
    let pod = world.node.pod("web").own_network().host_port(port, 80);
    let pod = pod.hostname("web");
    let web = world.cri.run_pod(&pod).await.unwrap();
    let spec = world.container("main").shell(SERVER);
    world.cri.run(&web, &pod, &spec).await.unwrap();
    let network = world.network(&web).await;
    let theirs = world.inspect(
        &web,
        "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
    );
    assert_eq!(network.ip, theirs, "the engine gave it");
    assert!(network.additional_ips.is_empty(), "{network:?}");

    // Another pod reaches it by its address, and the host by the port.
    let pod = world.node.pod("client").own_network();
    let client = world.cri.run_pod(&pod).await.unwrap();
    let spec = world.container("main").command(&["sleep", "1000"]);
    let id = world.cri.run(&client, &pod, &spec).await.unwrap();
    let url = format!("http://{}/name", network.ip);
    eventually("an answer of the web server", || {
        TcpStream::connect_timeout(
            &(network.ip.parse::<IpAddr>().unwrap(), 80).into(),
            Duration::from_secs(1),
        )
        .is_ok()
    })
    .await;
    let answer = world.output(&id, &["wget", "-q", "-O", "-", &url]).await;
    assert_eq!(answer, "web\n");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert_ne!(world.network(&client).await.ip, network.ip);

    // In the host's network there are no addresses of its own.
    let pod = world.node.pod("host");
    let host = world.cri.run_pod(&pod).await.unwrap();
    assert_eq!(
        world.network(&host).await,
        PodSandboxNetworkStatus::default()
    );

    world.cri.stop_pod(&web).await.unwrap();
    assert_eq!(world.network(&web).await.ip, "");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hairpin_mode_in_force_is_the_one_that_the_bridge_shows() {
    orlop_testkit::skip_unless!(orlop_testkit::docker::can_run());
    let mut engine = DockerEngine::settings().bridge().start();
    // The bridge is the engine's: in place of making it promiscuous, its ports are set.
    for (mode, wanted) in [
        ("none", (0, 1)),
        ("hairpin-veth", (1, 1)),
        ("promiscuous-bridge", (1, 1)),
    ] {
        let socket = engine.socket();
        let config = format!("network_plugin = \"bridge\"\nhairpin_mode = \"{mode}\"");
        let world = World::with(engine, &socket, &config).await;
        let pod = world.node.pod("loop").own_network();
        let pod_id = world.cri.run_pod(&pod).await.unwrap();
        let bridge = world.engine.bridge().unwrap();
        assert_eq!(hairpins(bridge), wanted, "{mode}");
        let flags = format!("/sys/class/net/{bridge}/flags");
        let flags = std::fs::read_to_string(flags).unwrap();
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap();
        assert_eq!(flags & 0x100, 0, "the bridge is not promiscuous");
        // A packet that a service's rules send back to its sender: for the bridge it is one to
        // the sender's own hardware address.
        let spec = world.container("main").command(&["sleep", "1000"]);
        let spec = spec.with(|config| {
            let linux = config.linux.get_or_insert_default();
            let security = linux.security_context.get_or_insert_default();
            security.capabilities = Some(orlop_cri_api::v1::Capability {
                add_capabilities: vec!["NET_ADMIN".into()],
                ..Default::default()
            });
        });
        let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();
        let service = world.service_address(&pod_id).await;
        let script = format!(
            "arp -s {service} $(cat /sys/class/net/eth0/address); cd /sys/class/net/eth0/statistics; \
             before=$(cat rx_bytes); ping -q -c 2 -w 2 -s 1400 {service} >&2; echo $(($(cat rx_bytes) - before))"
        );
        let received = world.output(&id, &["sh", "-c", &script]).await;
        let received: u64 = received.trim().parse().unwrap();
        assert_eq!(
            received > 2800,
            wanted.0 == 1,
            "{mode}: {received} bytes came back"
        );
        world.node.finish().await;
        engine = world.engine;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_network_plugin_a_pod_has_its_loopback() {
    let world = world!(DockerEngine::start(), "network_plugin = \"none\"");
    assert!(world.network_is_ready().await);
    let pod = world.node.pod("alone").own_network().host_port(1, 80);
    let pod_id = world.cri.run_pod(&pod).await.unwrap();
    let spec = world.container("main").command(&["sleep", "1000"]);
    let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();
    assert_eq!(
        world.network(&pod_id).await,
        PodSandboxNetworkStatus::default()
    );
    let links = world.output(&id, &["ls", "/sys/class/net"]).await;
    assert_eq!(links, "lo\n");
    let answer = world.output(&id, &["ping", "-c", "1", "-w", "5", "127.0.0.1"]);
    assert!(answer.await.contains("1 packets received"));
    world.cri.stop_pod(&pod_id).await.unwrap();
    world.cri.remove_pod(&pod_id).await.unwrap();
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_both_families_are_told_unless_one_is_wanted() {
    orlop_testkit::skip_unless!(orlop_testkit::docker::can_run());
    let mut engine = DockerEngine::settings().ipv6().start();
    for (dual_stack, others) in [("true", 1), ("false", 0)] {
        let socket = engine.socket();
        let config = format!("network_plugin = \"bridge\"\nipv6_dual_stack = {dual_stack}");
        let world = World::with(engine, &socket, &config).await;
        let pod = world.node.pod("both").own_network();
        let pod_id = world.cri.run_pod(&pod).await.unwrap();
        let network = world.network(&pod_id).await;
        assert!(
            network.ip.parse::<IpAddr>().unwrap().is_ipv4(),
            "{network:?}"
        );
        assert_eq!(network.additional_ips.len(), others, "{network:?}");
        for other in network.additional_ips {
            assert!(other.ip.starts_with("fd00:"), "{other:?}");
        }
        world.node.finish().await;
        engine = world.engine;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_both_families_come_from_cni_too() {
    let world = world!();
    let dir = world.node.scratch().subdir("cni");
    let subnet = world.node.scratch().subnet();
    let config = format!(
        r#"{{"cniVersion":"1.0.0","name":"two","plugins":[{{"type":"bridge","bridge":"{}",
        "isGateway":true,"hairpinMode":true,"ipam":{{"type":"host-local","dataDir":"{}",
        "ranges":[[{{"subnet":"{subnet}"}}],[{{"subnet":"fd00:1:2:3::/64"}}]]}}}}]}}"#,
        world.node.id(),
        world.node.scratch().path("ipam").display(),
    );
    std::fs::write(dir.join("10-test.conflist"), config).unwrap();
    let pod: PodSpec = world.node.pod("both").own_network();
    eventually("the new network", || {
        std::fs::read_dir(&dir).unwrap().count() == 1
    })
    .await;
    let mut pod_id = world.cri.run_pod(&pod).await.unwrap();
    let mut network = world.network(&pod_id).await;
    // The configuration is looked for anew after a moment.
    for attempt in 1..20 {
        if !network.additional_ips.is_empty() {
            break;
        }
        world.cri.stop_pod(&pod_id).await.unwrap();
        world.cri.remove_pod(&pod_id).await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let pod = pod.clone().attempt(attempt);
        pod_id = world.cri.run_pod(&pod).await.unwrap();
        network = world.network(&pod_id).await;
    }
    let second = &network.additional_ips[0].ip;
    assert!(second.starts_with("fd00:1:2:3:"), "{network:?}");
    // The configuration says how packets come back.
    assert_eq!(hairpins(world.node.id()), (1, 1));
    let spec = world.container("main").command(&["sleep", "1000"]);
    let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();
    let shown = world.output(&id, &["ip", "addr", "show", "eth0"]).await;
    assert_contains!(shown, &network.ip, second);
    world.node.finish().await;
}
