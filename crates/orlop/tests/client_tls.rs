//! Streaming over TLS: crictl's flags against a daemon with a certificate.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::{Command, Output};

use orlop_testkit::{
    Authority, ContainerSpec, ImageBuilder, Node, Registry, machine, node, skip_unless,
};

#[tokio::test]
async fn the_certificate_of_the_streaming_server_is_looked_at() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(machine::has_program("openssl"));
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "authority");
    let stranger = Authority::new(directory.path(), "stranger");
    let own = authority.issue("own", "DNS:streams.example,IP:127.0.0.1");
    let config = format!(
        "[streaming]\ntls_cert = \"{}\"\ntls_key = \"{}\"\n",
        own.certificate.display(),
        own.key.display()
    );
    let registry = Registry::start();
    let image = registry
        .push(&ImageBuilder::busybox().build(), "busybox:1")
        .await;
    let node = Node::orlop().config(&config).start().await;
    let cri = node.cri().await;
    cri.pull(&image).await.unwrap();
    let pod = node.pod("tls");
    let pod_id = cri.run_pod(&pod).await.unwrap();
    let spec = ContainerSpec::new("main", &image).shell("sleep 600");
    cri.run(&pod_id, &pod, &spec).await.unwrap();

    let run = |flags: &[&str]| -> Output {
        Command::new(node::binary())
            .args(["--config", "/dev/null", "--runtime-endpoint"])
            .arg(format!("unix://{}", node.socket().display()))
            .arg("exec")
            .args(flags)
            .args(["main", "echo", "ahoy"])
            .env_remove("CONTAINER_RUNTIME_ENDPOINT")
            .output()
            .unwrap()
    };
    let ca = |path: &Path| path.to_str().unwrap().to_owned();
    let (ours, theirs) = (ca(authority.certificate()), ca(stranger.certificate()));
    let (certificate, key) = (ca(&own.certificate), ca(&own.key));
    let good: [&[&str]; 4] = [
        &[],
        &["--tls-ca", &ours, "--tls-sni", "streams.example"],
        &[
            "-r",
            "websocket",
            "--tls-ca",
            &ours,
            "--tls-server-name",
            "streams.example",
        ],
        &[
            "--tls-ca",
            &ours,
            "--tls-sni",
            "127.0.0.1",
            "--tls-cert",
            &certificate,
            "--tls-key",
            &key,
        ],
    ];
    for flags in good {
        let output = run(flags);
        assert_eq!(output.stdout, b"ahoy\n", "{flags:?}: {output:?}");
    }
    let bad: [(&[&str], &str); 4] = [
        (
            &["--tls-ca", &theirs, "--tls-sni", "streams.example"],
            "UnknownIssuer",
        ),
        (
            &["--tls-ca", &ours, "--tls-sni", "else.example"],
            "else.example",
        ),
        (&["--tls-ca", &key], "no certificate"),
        (&["--tls-cert", &certificate], "--tls-key"),
    ];
    for (flags, said) in bad {
        let output = run(flags);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{flags:?}");
        assert!(error.contains(said), "{flags:?}: {error}");
    }
    drop(cri);
    node.finish().await;
}
