//! What plugins are told, and what becomes of a pod whose network cannot be made.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use orlop_cri_api::v1::{DnsConfig, ListPodSandboxRequest, StatusRequest};
use orlop_testkit::{Node, PodSpec, skip};
use serde_json::{Value, json};
use tonic::Code;

use crate::containers::wait_for;
use crate::restart::script;
use crate::world::{World, ours, world};

/// A directory of configurations and one of plugins, of which `told` is the only one: it
/// notes what it is told, does what the file `do` says, and gives an address.
struct Plugins {
    dir: tempfile::TempDir,
}

impl Plugins {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["net.d", "bin", "cache"] {
            std::fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        let plugins = Self { dir };
        let at = plugins.dir.path().display().to_string();
        let text = format!(
            r#"cat > {at}/$CNI_COMMAND.json
               printf '%s' "$CNI_ARGS" > {at}/args
               [ ! -e {at}/do ] || . {at}/do
               [ $CNI_COMMAND != ADD ] || echo '{{"cniVersion":"1.1.0","ips":[{{"address":"192.0.2.7/24"}},{{"address":"fd00::7/64"}}],"dns":{{}}}}'"#
        );
        script(&plugins.path("bin"), "told", &text);
        plugins.configure(1);
        plugins
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the configuration; with another number it is another one.
    fn configure(&self, number: u32) {
        let conf = json!({
            "cniVersion": "1.1.0", "name": "told",
            "plugins": [{"type": "told", "number": number, "capabilities": {
                "portMappings": true, "bandwidth": true, "dns": true, "ips": true, "mac": true,
                "aliases": true, "infinibandGUID": true, "cgroupPath": true,
                "io.kubernetes.cri.pod-annotations": true,
            }}],
        });
        let file = self.path("net.d").join("10-told.conflist");
        std::fs::write(file, conf.to_string()).expect("write");
    }

    /// What the plugin does before it answers, from now on.
    fn behave(&self, text: &str) {
        std::fs::write(self.path("do"), text).expect("write");
    }

    fn told(&self, verb: &str) -> Value {
        let text = std::fs::read(self.path(&format!("{verb}.json"))).expect("it was called");
        serde_json::from_slice(&text).expect("JSON")
    }

    /// The node's configuration.
    fn section(&self) -> String {
        let at = |name: &str| self.path(name).display().to_string();
        format!(
            "[network]\nconf_dir = {:?}\nbin_dirs = [{:?}]\ncache_dir = {:?}\n\
             plugin_timeout = \"2s\"\nstatus_grace = \"0s\"\n",
            at("net.d"),
            at("bin"),
            at("cache"),
        )
    }
}

/// Whether the node's network is ready, and what is said about it.
async fn network_ready(world: &World) -> (bool, String) {
    let mut runtime = world.cri.runtime();
    let status = runtime.status(StatusRequest::default()).await;
    let status = status.expect("a status").into_inner().status;
    let conditions = status.expect("a status").conditions;
    let ready = conditions.iter().find(|one| one.r#type == "NetworkReady");
    let ready = ready.expect("NetworkReady");
    (ready.status, ready.message.clone())
}

fn files_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// What a command of the node says in a pod's network.
pub(crate) fn in_network(namespace: &Path, command: &[&str]) -> String {
    let said = std::process::Command::new("nsenter")
        .arg(format!("--net={}", namespace.display()))
        .args(command)
        .output()
        .expect("run nsenter(1)");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

fn pod(world: &World, name: &str) -> PodSpec {
    world.node.pod(name).own_network()
}

#[tokio::test]
async fn a_keeper_that_cannot_start_leaves_nothing_of_a_network_made_meanwhile() {
    let dir = tempfile::tempdir().expect("a directory");
    // By then the network is there.
    let keeper = script(dir.path(), "keeper", "sleep 1; exit 1");
    let world = world!(Node::orlop().drop_in(&format!("[keeper]\npath = {keeper:?}\n")));
    let refused = world.cri.run_pod(&pod(&world, "keeperless")).await;
    let refused = refused.expect_err("a pod without a keeper");
    assert!(refused.message().contains("keeper"), "{refused:?}");
    let leases = world.node.scratch().path("ipam").join(world.node.id());
    let leases = files_in(&leases);
    assert!(
        leases
            .iter()
            .any(|name| name.starts_with("last_reserved_ip")),
        "{leases:?}"
    );
    let taken = leases.iter().find(|name| name.parse::<IpAddr>().is_ok());
    assert_eq!(taken, None);
    assert_eq!(
        files_in(&world.node.state().join("netns")),
        Vec::<String>::new()
    );
    let attachments = world.node.root().join("network/attachments");
    assert_eq!(files_in(&attachments), Vec::<String>::new());
    assert_eq!(held_networks(&world), Vec::<PathBuf>::new());
    world.finish().await;
}

/// The network namespaces that threads of the daemon hold.
fn held_networks(world: &World) -> Vec<PathBuf> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", world.node.pid())).expect("threads");
    let threads = threads.flatten().map(|thread| thread.path());
    let holding = threads.filter(|thread| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "orlop-netns")
    });
    holding
        .filter_map(|thread| std::fs::read_link(thread.join("ns/net")).ok())
        .collect()
}

/// Pods seldom come alone. What no pod takes is gone soon: an idle daemon holds nothing.
#[tokio::test]
async fn the_next_pods_network_namespace_is_made_ahead_and_let_go_of_where_none_comes() {
    let world = ours!();
    world.run_pod(&pod(&world, "first")).await;
    let held = || held_networks(&world);
    let mut spare = Vec::new();
    // On a busy machine the spare one may be let go before the next pod asks for it.
    for attempt in 0..5 {
        wait_for(|| held().len() == 1).await;
        spare = held();
        let next = world
            .run_pod(&pod(&world, &format!("next-{attempt}")))
            .await;
        let inside = world.node.state().join("netns").join(&next);
        let inside = in_network(&inside, &["readlink", "/proc/self/ns/net"]);
        if spare == [Path::new(inside.trim())] {
            break;
        }
        assert!(attempt < 4, "no pod gets {spare:?}, the last {inside}");
    }
    wait_for(|| held().len() == 1 && held() != spare).await;
    wait_for(|| held().is_empty()).await;
    world.finish().await;
}

#[tokio::test]
async fn plugins_are_told_all_that_the_pod_asks_for() {
    let plugins = Plugins::new();
    let world = world!(Node::orlop().drop_in(&plugins.section()));
    let asking = pod(&world, "asking")
        .host_port(18080, 80)
        .annotation("kubernetes.io/ingress-bandwidth", "1M")
        .annotation("kubernetes.io/egress-bandwidth", "2M")
        .annotation("network.orlop/ips", "192.0.2.7/24")
        .annotation("network.orlop/mac", "02:00:0a:01:02:03")
        .annotation("network.orlop/aliases", "web, www")
        .annotation("network.orlop/infiniband-guid", "c2:11:22:33:44:55:66:77")
        .with(|config| {
            config.dns_config = Some(DnsConfig {
                servers: vec!["192.0.2.53".into()],
                searches: vec!["cluster.local".into()],
                options: vec!["ndots:5".into()],
            });
        });
    let id = world.run_pod(&asking).await;
    let config = asking.config();
    let runtime = plugins.told("ADD")["runtimeConfig"].clone();
    let burst = i32::MAX;
    let parent = config.linux.clone().unwrap_or_default().cgroup_parent;
    assert_eq!(
        runtime,
        json!({
            "portMappings": [{"hostPort": 18080, "containerPort": 80, "protocol": "tcp"}],
            "bandwidth": {
                "ingressRate": 1_000_000, "ingressBurst": burst,
                "egressRate": 2_000_000, "egressBurst": burst,
            },
            "dns": {"servers": ["192.0.2.53"], "searches": ["cluster.local"], "options": ["ndots:5"]},
            "ips": ["192.0.2.7/24"],
            "mac": "02:00:0a:01:02:03",
            "aliases": ["web", "www"],
            "infinibandGUID": "c2:11:22:33:44:55:66:77",
            "cgroupPath": parent,
            "io.kubernetes.cri.pod-annotations": config.annotations,
        })
    );
    let metadata = config.metadata.expect("metadata");
    let args = std::fs::read_to_string(plugins.path("args")).expect("arguments");
    assert_eq!(
        args,
        format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};\
             K8S_POD_INFRA_CONTAINER_ID={id};K8S_POD_UID={}",
            metadata.namespace, metadata.name, metadata.uid
        )
    );
    let status = world.cri.pod_status(&id).await.expect("status").network;
    let network = status.expect("a network status");
    let more: Vec<_> = network
        .additional_ips
        .iter()
        .map(|ip| ip.ip.as_str())
        .collect();
    assert_eq!((network.ip.as_str(), more), ("192.0.2.7", vec!["fd00::7"]));
    // Where other tools look for it.
    let results = plugins.path("cache/results");
    assert_eq!(files_in(&results), [format!("told-{id}-eth0")]);

    world.cri.stop_pod(&id).await.expect("stop");
    let removed = plugins.told("DEL");
    assert_eq!(removed["runtimeConfig"], runtime, "DEL is told the same");
    assert_eq!(removed["prevResult"]["ips"][0]["address"], "192.0.2.7/24");
    assert_eq!(files_in(&results), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn annotations_that_make_no_sense_are_refused_by_name() {
    let plugins = Plugins::new();
    let world = world!(Node::orlop().drop_in(&plugins.section()));
    for (key, value) in [
        ("kubernetes.io/ingress-bandwidth", "fast"),
        ("kubernetes.io/egress-bandwidth", "2P"),
        ("network.orlop/mac", "02:00"),
    ] {
        let odd = pod(&world, "odd").annotation(key, value);
        let error = world.cri.run_pod(&odd).await.expect_err("refused");
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        assert!(error.message().contains(key), "{error}");
    }
    assert!(!plugins.path("ADD.json").exists(), "no plugin was called");
    world.finish().await;
}

#[tokio::test]
async fn a_plugin_that_fails_is_told_on_the_pod_and_leaks_nothing() {
    let plugins = Plugins::new();
    let world = world!(Node::orlop().drop_in(&plugins.section()));
    let on_add = |what: &str| format!("[ $CNI_COMMAND != ADD ] || {{ {what}; }}");
    for (what, said) in [
        (r#"echo '{"code":7,"msg":"no luck"}'; exit 1"#, "no luck"),
        ("echo cannot >&2; exit 3", "it exited with 3: cannot"),
        ("kill -9 $$", "signal 9"),
        ("echo garbage; exit 0", "garbage"),
        (r#"echo '{"cniVersion":"1.1.0"}'; exit 0"#, "no IP address"),
        (r#"echo '{"cniVersion":"9.0.0"}'; exit 0"#, "9.0.0"),
        ("sleep 60", "timed out after 2s"),
    ] {
        plugins.behave(&on_add(what));
        let failing = pod(&world, "failing");
        let error = world.cri.run_pod(&failing).await.expect_err("it fails");
        let message = error.message();
        assert!(
            message.contains(said) && message.contains("plugin told failed at ADD"),
            "{what}: {error}"
        );
        assert_eq!(files_in(&plugins.path("cache/results")), [""; 0], "{what}");
    }
    // The kubelet tries again, and once all is well it works.
    plugins.behave("");
    let id = world.run_pod(&pod(&world, "failing")).await;
    assert_eq!(network_ready(&world).await, (true, String::new()));

    // What a plugin's own status says counts, and a removal that fails is repeated.
    plugins.behave(r#"echo '{"code":50,"msg":"no controller"}'; exit 1"#);
    // What was ready a moment ago is not asked again at once, but for another configuration.
    plugins.configure(2);
    let (ready, message) = eventually(&world, |ready, _| !ready).await;
    assert!(!ready && message.contains("no controller"), "{message}");
    let error = world.cri.stop_pod(&id).await.expect_err("DEL fails");
    assert!(error.message().contains("no controller"), "{error}");
    plugins.behave("");
    world.cri.stop_pod(&id).await.expect("DEL is repeated");

    eventually(&world, |ready, _| ready).await;

    // A broken file is told of, and the network stays what it was.
    std::fs::write(plugins.path("net.d/10-told.conflist"), "{ broken").expect("write");
    let (ready, message) = eventually(&world, |_, message| !message.is_empty()).await;
    assert!(ready && message.contains("10-told.conflist"), "{message}");
    world.run_pod(&pod(&world, "still")).await;

    std::fs::remove_file(plugins.path("bin/told")).expect("remove");
    let error = world.cri.run_pod(&pod(&world, "missing")).await;
    let error = error.expect_err("no plugin").message().to_owned();
    assert!(error.contains("no such program in"), "{error}");
    let filter = ListPodSandboxRequest::default();
    let pods = world.cri.runtime().list_pod_sandbox(filter).await;
    let pods = pods.expect("the pods").into_inner().items;
    let names = pods.iter().filter_map(|pod| pod.metadata.as_ref());
    assert!(
        !names.into_iter().any(|pod| pod.name == "missing"),
        "what a plugin that never ran has not done needs no plugin to be undone"
    );
    script(&plugins.path("bin"), "told", "exit 0");
    world.finish().await;
}

#[tokio::test]
async fn a_file_that_was_never_good_gives_pods_no_other_network() {
    let plugins = Plugins::new();
    std::fs::write(plugins.path("net.d/10-told.conflist"), "{ broken").expect("write");
    let world = world!(Node::orlop().drop_in(&plugins.section()));
    let (ready, message) = network_ready(&world).await;
    assert!(!ready && message.contains("10-told.conflist"), "{message}");
    let error = world.cri.run_pod(&pod(&world, "early")).await;
    let error = error.expect_err("no network").message().to_owned();
    assert!(error.contains("10-told.conflist"), "{error}");
    world.finish().await;
}

#[tokio::test]
async fn a_handler_has_networks_of_its_own_and_the_node_s_has_none_made() {
    let (usual, special) = (Plugins::new(), Plugins::new());
    let runtime = std::path::Path::new("/usr/sbin/runc");
    if !runtime.exists() {
        skip!("needs {}", runtime.display());
    }
    let handler = format!(
        "[runtimes.special]\npath = {runtime:?}\ncni_conf_dir = {:?}\n",
        special.path("net.d").display().to_string()
    );
    // Plugins are looked for in one place; they are told which network it is.
    let section = usual.section();
    let world = world!(Node::orlop().drop_in(&format!("{section}{handler}")));
    let name = |network: &str| {
        json!({"cniVersion": "1.1.0", "name": network, "plugins": [{"type": "told"}]}).to_string()
    };
    std::fs::write(special.path("net.d/10-told.conflist"), name("special")).expect("write");
    world.run_pod(&world.node.pod("node")).await;
    assert!(!usual.path("ADD.json").exists(), "a plugin was called");

    let request = orlop_cri_api::v1::RunPodSandboxRequest {
        config: Some(pod(&world, "special").config()),
        runtime_handler: "special".to_owned(),
    };
    // The directory is watched: what was written a moment ago may not be read yet.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let made = world.cri.runtime().run_pod_sandbox(request).await;
    made.expect("a pod of the handler");
    assert_eq!(usual.told("ADD")["name"], "special");
    world.run_pod(&pod(&world, "usual")).await;
    assert_eq!(usual.told("ADD")["name"], "told");
    world.finish().await;
}

/// The network's state once it is as wanted; a state is not asked for anew at once.
/// Every container is made in a copy of the node's mounts: each one more would cost all that come after.
#[tokio::test]
async fn pods_on_a_network_made_in_process_add_no_mount_to_the_node() {
    let world = ours!();
    let at = |id: &str| world.node.state().join("netns").join(id);
    let mounted = || {
        let table = format!("/proc/{}/mountinfo", world.node.pid());
        let table = std::fs::read_to_string(table).expect("the daemon's mounts");
        let pins = at("").display().to_string();
        table
            .lines()
            .filter(|line| line.contains(pins.trim_end_matches('/')))
            .count()
    };
    let linked = pod(&world, "linked");
    let id = world.run_pod(&linked).await;
    assert_eq!(mounted(), 0);
    // Whoever knows the pod's name enters its network all the same.
    let status = world.cri.pod_status(&id).await.expect("a status");
    let ip = status.network.expect("a network").ip;
    let inside = in_network(&at(&id), &["ip", "-br", "addr"]);
    assert!(inside.contains(&ip), "{ip} is not in {inside}");
    world.cri.stop_pod(&id).await.expect("stop");
    world.cri.remove_pod(&id).await.expect("remove");
    assert!(
        at(&id).symlink_metadata().is_err(),
        "the link is still there"
    );
    world.node.finish().await;
}

/// Programs get a path that means the same to others to whom they pass it on, in containers of theirs.
#[tokio::test]
async fn plugins_programs_get_a_mount_of_the_namespace() {
    let plugins = Plugins::new();
    let note = format!("echo $CNI_NETNS > {}", plugins.path("netns").display());
    plugins.behave(&note);
    let world = world!(Node::orlop().drop_in(&plugins.section()));
    let id = world.run_pod(&pod(&world, "mounted")).await;
    let told = std::fs::read_to_string(plugins.path("netns")).expect("it was called");
    let found = Path::new(told.trim())
        .symlink_metadata()
        .expect("it is there");
    assert!(found.file_type().is_file(), "{found:?}");
    world.cri.stop_pod(&id).await.expect("stop");
    world.cri.remove_pod(&id).await.expect("remove");
    assert!(!Path::new(told.trim()).exists());
    world.node.finish().await;
}

async fn eventually(world: &World, wanted: impl Fn(bool, &str) -> bool) -> (bool, String) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(50);
    loop {
        let (ready, message) = network_ready(world).await;
        if wanted(ready, &message) || std::time::Instant::now() > deadline {
            return (ready, message);
        }
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
}
