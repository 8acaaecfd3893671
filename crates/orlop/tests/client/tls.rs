//! Streaming over TLS: crictl's flags against a daemon with a certificate.

use std::path::Path;

use orlop_testkit::{Authority, ContainerSpec, Node, machine, skip_unless};

use crate::world::World;

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
    let world = World::start(Node::orlop().config(&config)).await;
    let pod = world.node.pod("tls");
    let pod_id = world.cri.run_pod(&pod).await.unwrap();
    let spec = ContainerSpec::new("main", &world.image).shell("sleep 600");
    world.cri.run(&pod_id, &pod, &spec).await.unwrap();

    let run = |flags: &[&str]| {
        let line = [&["exec"], flags, &["main", "echo", "ahoy"]].concat();
        world.client.run(&line)
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
    world.finish().await;
}
