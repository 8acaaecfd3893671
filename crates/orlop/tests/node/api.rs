//! The kubelet's HTTP API.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_streaming::client::{ClientOptions, ClientStreams, Protocol, exec};
use orlop_testkit::Authority;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::world::{Agent, SOON, world};

/// Where the agent serves HTTPS: it says so in its log.
pub(crate) async fn address(agent: &Agent) -> SocketAddr {
    let deadline = Instant::now() + SOON;
    loop {
        let log = agent.process.log();
        let line = log.lines().find(|line| line.contains("over HTTPS"));
        if let Some(line) = line {
            // The log is JSON where it is no terminal.
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            return line["address"].as_str().unwrap().parse().unwrap();
        }
        assert!(Instant::now() < deadline, "{log}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) fn trust(agent: &Agent, own: Option<&orlop_testkit::tls::Pair>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = agent.root.join("pki/kubelet.crt");
    roots
        .add(CertificateDer::from_pem_file(certificate).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match own {
        None => builder.with_no_client_auth(),
        Some(pair) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_file(&pair.certificate).unwrap()],
                PrivateKeyDer::from_pem_file(&pair.key).unwrap(),
            )
            .unwrap(),
    })
}

pub(crate) fn status_of(to: SocketAddr, tls: &Arc<ClientConfig>, path: &str, header: &str) -> u16 {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(tls), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(to).unwrap());
    write!(stream, "GET {path} HTTP/1.0\r\nHost: node\r\n{header}\r\n").unwrap();
    let mut answer = Vec::new();
    // A server that closes without a farewell has still answered.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kubelets_paths_answer() {
    let world = world!();
    world.write("a.yaml", &world.sleeper("a", "hostNetwork: true", ""));
    let mut agent = world.agent(&[]);
    let pod = agent.ready("a-n1").await;
    assert_eq!(pod["kind"], "Pod");
    assert_eq!(pod["status"]["phase"], "Running");

    assert_eq!(agent.get("/healthz"), "ok");
    let running = agent.json("/runningpods/");
    assert_eq!(running["items"][0]["metadata"]["name"], "a-n1");
    assert_eq!(
        agent.json("/configz")["kubeletconfig"]["kind"],
        "KubeletConfiguration"
    );

    let logs = "/containerLogs/default/a-n1/main";
    agent.log("a-n1", "hello\n").await;
    assert_eq!(agent.get(&format!("{logs}?limitBytes=3")), "hel");
    assert_eq!(agent.get(&format!("{logs}?tailLines=0")), "");
    let dated = agent.get(&format!("{logs}?timestamps=true"));
    assert!(
        dated.ends_with("Z hello\n") || dated.contains('+') && dated.ends_with(" hello\n"),
        "{dated}"
    );
    assert_eq!(agent.ask("GET", &format!("{logs}?tailLines=x"), "").0, 400);
    assert_eq!(
        agent.ask("GET", "/containerLogs/default/a-n1/none", "").0,
        404
    );
    assert_eq!(
        agent.ask("GET", "/containerLogs/default/none/main", "").0,
        404
    );

    let (status, output) = agent.ask("POST", "/run/default/a-n1/main?cmd=echo+ran", "");
    assert_eq!((status, output.as_str()), (200, "ran\n"));
    let (status, output) = agent.ask(
        "POST",
        "/run/default/a-n1/main?command=sh&command=-c&command=exit+3",
        "",
    );
    assert_eq!(status, 500, "{output}");
    assert!(output.contains("exit code 3"), "{output}");

    let summary = agent.json("/stats/summary");
    assert_eq!(summary["node"]["nodeName"], "n1");
    for name in ["kubelet", "runtime", "pods"] {
        let parts = summary["node"]["systemContainers"].as_array().unwrap();
        let part = parts.iter().find(|it| it["name"] == name).unwrap();
        assert!(part["startTime"].is_string(), "{part}");
        for (of, field) in [
            ("cpu", "usageCoreNanoSeconds"),
            ("cpu", "usageNanoCores"),
            ("memory", "usageBytes"),
            ("memory", "workingSetBytes"),
            ("memory", "rssBytes"),
        ] {
            assert!(part[of][field].is_number(), "{name} {of}.{field}: {part}");
        }
        assert!(
            part["memory"]["usageBytes"].as_u64() > Some(1 << 14),
            "{part}"
        );
    }
    let stats = &summary["pods"][0];
    assert_eq!(stats["podRef"]["name"], "a-n1");
    let memory = stats["containers"][0]["memory"]["workingSetBytes"].as_u64();
    assert!(memory.is_some_and(|it| it > 0), "{stats:#}");
    for (of, fields) in [
        (
            &stats["containers"][0]["cpu"],
            "usageNanoCores usageCoreNanoSeconds time",
        ),
        (
            &stats["containers"][0]["logs"],
            "usedBytes capacityBytes availableBytes inodesUsed",
        ),
        (
            &stats["containers"][0]["rootfs"],
            "usedBytes capacityBytes inodes inodesUsed",
        ),
        (
            &stats["ephemeral-storage"],
            "usedBytes capacityBytes inodesFree inodesUsed",
        ),
        (
            &summary["node"]["network"],
            "name rxBytes txErrors interfaces time",
        ),
        (&summary["node"]["rlimit"], "maxpid curproc"),
        (
            &summary["node"]["swap"],
            "swapUsageBytes swapAvailableBytes",
        ),
        (
            &summary["node"]["memory"],
            "rssBytes pageFaults workingSetBytes",
        ),
        (
            &summary["node"]["runtime"]["containerFs"],
            "capacityBytes usedBytes",
        ),
        (&summary["node"]["cpu"], "usageNanoCores"),
    ] {
        for field in fields.split(' ') {
            assert!(!of[field].is_null(), "{field} is missing: {of:#}");
        }
    }
    assert!(!summary.to_string().contains("null"), "{summary:#}");
    for (path, word) in [
        ("/metrics", "process_cpu_seconds_total"),
        ("/metrics", "orlop_node_manifest_errors 0"),
        (
            "/metrics/resource",
            "container_memory_working_set_bytes{container=\"main\",namespace=\"default\",pod=\"a-n1\"}",
        ),
        ("/metrics/resource", "node_swap_usage_bytes "),
        ("/metrics/cadvisor", "container_cpu_usage_seconds_total"),
        ("/metrics/cadvisor", "machine_cpu_cores"),
    ] {
        let text = agent.get(path);
        assert!(text.contains(word), "{path}: {text}");
    }
    // What dashboards of kubelets look for.
    let metrics = agent.get("/metrics");
    for name in [
        "kubelet_active_pods{static=\"true\"} 1",
        "kubelet_cgroup_version ",
        "kubelet_desired_pods{static=\"true\"} 1",
        "kubelet_image_manager_ensure_image_requests_total{pull_policy=\"never\"",
        "kubelet_imagemanager_image_mustpull_checks_total{result=",
        "kubelet_imagemanager_ondisk_pulledrecords ",
        "kubelet_node_name{node=\"n1\"} 1",
        "kubelet_pleg_last_seen_seconds ",
        "kubelet_pleg_relist_duration_seconds_bucket{",
        "kubelet_pod_start_duration_seconds_count 1",
        "kubelet_pod_worker_duration_seconds_bucket{",
        "kubelet_run_podsandbox_duration_seconds_bucket{",
        "kubelet_running_containers{container_state=\"running\"} 1",
        "kubelet_running_pods 1",
        "kubelet_runtime_operations_duration_seconds_bucket{",
        "kubelet_runtime_operations_total{operation_type=\"runtime_config\"} 1",
        "kubelet_runtime_operations_total{operation_type=\"version\"} 1",
        "kubelet_started_containers_total{container_type=\"container\"} 1",
        "kubelet_started_pods_total 1",
        "process_open_fds ",
    ] {
        assert!(metrics.contains(name), "{name} not in\n{metrics}");
    }
    assert_eq!(agent.ask("GET", "/logs/", "").0, 405);
    assert_eq!(agent.ask("GET", "/none", "").0, 404);
    assert_eq!(agent.ask("POST", "/pods", "").0, 405);
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_run_through_https_over_either_protocol() {
    let world = world!();
    world.write("a.yaml", &world.sleeper("a", "hostNetwork: true", ""));
    let mut agent = world.agent(&["--anonymous-auth"]);
    agent.ready("a-n1").await;
    let address = address(&agent).await;
    let tls = trust(&agent, None);
    for protocol in [Protocol::Spdy, Protocol::WebSocket] {
        let options = ClientOptions {
            protocol,
            tls: Some(Arc::clone(&tls)),
            server_name: None,
            timeout: SOON,
        };
        let url = format!(
            "https://localhost:{}/exec/default/a-n1/main?command=sh&command=-c&command={}&input=1&output=1",
            address.port(),
            "cat;exit%207"
        );
        let (mut near, far) = tokio::io::duplex(1024);
        let streams = ClientStreams {
            stdin: Some(Box::new(&b"through the agent"[..])),
            stdout: Some(Box::new(far)),
            ..ClientStreams::default()
        };
        let code = exec(&url, &options, streams).await.unwrap();
        let mut output = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut near, &mut output)
            .await
            .unwrap();
        assert_eq!(
            (code, output.as_str()),
            (7, "through the agent"),
            "{protocol:?}"
        );
    }
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_shows_a_token_or_a_certificate_comes_in() {
    let world = world!();
    let scratch = world.node.scratch();
    let tokens = scratch.path("tokens.csv");
    std::fs::write(&tokens, "s3cret,ann,1\n").unwrap();
    let authority = Authority::new(&scratch.subdir("ca"), "clients");
    let good = authority.issue("ann", "DNS:ann");
    let stranger = Authority::new(&scratch.subdir("other"), "others").issue("eve", "DNS:eve");
    let agent = world.agent(&[
        "--token-auth-file",
        tokens.to_str().unwrap(),
        "--client-ca-file",
        authority.certificate().to_str().unwrap(),
    ]);
    let address = address(&agent).await;
    let anybody = trust(&agent, None);
    let ann = trust(&agent, Some(&good));
    for (tls, header, expected) in [
        (&anybody, "", 401),
        (&anybody, "Authorization: Bearer wrong\r\n", 401),
        (&anybody, "Authorization: Bearer s3cret\r\n", 200),
        (&ann, "", 200),
    ] {
        for path in ["/pods", "/healthz"] {
            assert_eq!(
                status_of(address, tls, path, header),
                expected,
                "{path} {header}"
            );
        }
    }
    // Orders are for root's socket alone.
    assert_eq!(status_of(address, &ann, "/orlop/v1/status", ""), 403);
    let eve = trust(&agent, Some(&stranger));
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(eve, name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
    let asked = write!(stream, "GET /pods HTTP/1.0\r\nHost: node\r\n\r\n");
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    assert!(
        asked.is_err() || read.is_err() || answer.is_empty(),
        "a stranger was answered"
    );
    agent.stop();
    world.finish().await;
}
