//! Streaming over TLS, with certificates that are renewed while the server runs.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use orlop_streaming::client::{ClientError, ClientOptions, Protocol, exec};
use orlop_streaming::{Config, Server, ServerError, TlsFiles};
use orlop_testkit::{assert_contains, machine, skip_unless};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::fixture::{self, PROTOCOLS, command_with_input, eventually, outputs, over, serve_with};

/// Makes a certificate for 127.0.0.1 that vouches for itself.
fn make_certificate(directory: &Path, name: &str) {
    let status = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args([
            "-days",
            "2",
            "-subj",
            "/CN=stream",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(directory.join(format!("{name}.key")))
        .arg("-out")
        .arg(directory.join(format!("{name}.pem")))
        .stderr(std::process::Stdio::null())
        .status();
    assert!(
        status.expect("openssl").success(),
        "no certificate was made"
    );
}

fn files(directory: &Path, name: &str) -> TlsFiles {
    TlsFiles {
        certificate: directory.join(format!("{name}.pem")),
        key: directory.join(format!("{name}.key")),
        client_ca: None,
    }
}

/// Options that trust one certificate, and show another where the server asks for it.
fn trusting(
    protocol: Protocol,
    directory: &Path,
    server: &str,
    own: Option<&str>,
) -> ClientOptions {
    let read = |name: &str| {
        CertificateDer::from_pem_file(directory.join(format!("{name}.pem"))).expect("a certificate")
    };
    let mut roots = RootCertStore::empty();
    roots.add(read(server)).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from_pem_file(directory.join(format!("{own}.key")));
            builder
                .with_client_auth_cert(vec![read(own)], key.expect("a key"))
                .expect("a pair")
        }
    };
    ClientOptions {
        tls: Some(Arc::new(config)),
        ..over(protocol)
    }
}

async fn echo(server: &Server, options: &ClientOptions) -> Result<String, ClientError> {
    let request = command_with_input(&["cat"]);
    let url = server.exec_url(request).expect("an URL");
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let (mut streams, stdout, _) = outputs();
    streams.stdin = Some(Box::new(std::io::Cursor::new(vec![b'x'; 3 << 20])));
    exec(&url, options, streams).await?;
    Ok(stdout.text())
}

#[tokio::test]
async fn sessions_run_over_tls_and_follow_a_renewed_certificate() {
    skip_unless!(machine::has_program("openssl"));
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path();
    make_certificate(path, "current");
    make_certificate(path, "next");
    std::fs::copy(path.join("current.pem"), path.join("old.pem")).expect("a copy");
    let config = Config {
        tls: Some(files(path, "current")),
        ..Config::default()
    };
    let (server, _) = serve_with(config).await;
    for protocol in PROTOCOLS {
        let text = echo(&server, &trusting(protocol, path, "old", None)).await;
        assert_eq!(text.expect("a session").len(), 3 << 20);
        let stranger = echo(&server, &trusting(protocol, path, "next", None)).await;
        assert!(
            matches!(stranger, Err(ClientError::Connect { .. })),
            "{stranger:?}"
        );
    }
    // Half a renewal, with a key that does not belong to the certificate, changes nothing.
    std::fs::copy(path.join("next.key"), path.join("current.key")).expect("a copy");
    let text = echo(&server, &trusting(Protocol::Spdy, path, "old", None)).await;
    assert_eq!(text.expect("a session").len(), 3 << 20);
    std::fs::copy(path.join("next.pem"), path.join("current.pem")).expect("a copy");
    let text = echo(&server, &trusting(Protocol::Spdy, path, "next", None)).await;
    assert_eq!(text.expect("a session").len(), 3 << 20);
}

#[tokio::test]
async fn clients_without_a_certificate_are_turned_away_where_one_is_asked_for() {
    skip_unless!(machine::has_program("openssl"));
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path();
    make_certificate(path, "server");
    make_certificate(path, "client");
    let tls = TlsFiles {
        client_ca: Some(path.join("client.pem")),
        ..files(path, "server")
    };
    let (server, backend) = serve_with(Config {
        tls: Some(tls),
        ..Config::default()
    })
    .await;
    let known = trusting(Protocol::Spdy, path, "server", Some("client"));
    echo(&server, &known).await.expect("a session");
    let unknown = trusting(Protocol::Spdy, path, "server", None);
    echo(&server, &unknown).await.expect_err("no session");
    eventually("nothing", || backend.kills() == 0).await;
}

#[tokio::test]
async fn what_is_prepared_holds_only_when_it_is_put_in_force() {
    skip_unless!(machine::has_program("openssl"));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    make_certificate(path, "server");
    make_certificate(path, "client");
    let strict = Config {
        tls: Some(TlsFiles {
            client_ca: Some(path.join("client.pem")),
            ..files(path, "server")
        }),
        ..Config::default()
    };
    let (terms, patience) = (strict.terms.clone(), strict.idle_timeout);
    let (server, _) = serve_with(strict).await;
    let unknown = trusting(Protocol::Spdy, path, "server", None);
    let open = server.prepare(Some(files(path, "server")), terms, patience);
    let open = open.expect("files that can be used");
    echo(&server, &unknown).await.expect_err("no session");
    server.change(open);
    echo(&server, &unknown).await.expect("a session");
}

#[tokio::test]
async fn a_server_says_which_file_is_missing() {
    let missing = files(Path::new("/no/such/directory"), "server");
    let backend = Arc::new(fixture::LocalBackend::default());
    let config = Config {
        tls: Some(missing),
        ..Config::default()
    };
    let error = Server::bind(config, backend)
        .await
        .err()
        .expect("no server");
    assert!(matches!(error, ServerError::TlsFile { .. }));
    assert_contains!(error.to_string(), "/no/such/directory/server.pem");
    tokio::time::sleep(Duration::ZERO).await;
}
