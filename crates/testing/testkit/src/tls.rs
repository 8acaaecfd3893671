//! TLS in front of a plain server, with generated certificates.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::serve::Server;

/// PEM files of a certificate and its key.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    dir: PathBuf,
    own: Pair,
}

impl Authority {
    /// Creates an authority with its files in `dir`.
    pub fn new(dir: &Path, name: &str) -> Self {
        let own = pair(dir, name);
        make(&own, name, &["-addext", "keyUsage=critical,keyCertSign"]);
        Self {
            dir: dir.to_owned(),
            own,
        }
    }

    /// Returns its own certificate.
    pub fn certificate(&self) -> &Path {
        &self.own.certificate
    }

    /// Issues a certificate for servers and clients with these names: `IP:127.0.0.1,DNS:registry.example`.
    pub fn issue(&self, name: &str, names: &str) -> Pair {
        let issued = pair(&self.dir, name);
        let path = |path: &Path| path.to_str().expect("a path of text").to_owned();
        make(
            &issued,
            name,
            &[
                "-CA",
                &path(&self.own.certificate),
                "-CAkey",
                &path(&self.own.key),
                "-addext",
                &format!("subjectAltName={names}"),
                "-addext",
                "basicConstraints=critical,CA:FALSE",
                "-addext",
                "extendedKeyUsage=serverAuth,clientAuth",
            ],
        );
        issued
    }
}

/// A TLS server in front of another server, stopped on drop.
#[derive(Debug)]
pub struct TlsFront {
    server: Server,
}

impl TlsFront {
    /// Starts a server with the certificate `own`. If `clients` is given, clients need a certificate of that authority.
    pub fn before(upstream: SocketAddr, own: &Pair, clients: Option<&Path>) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(settings(own, clients)));
        Self {
            server: Server::start(move |stream| relay(acceptor.clone(), stream, upstream)),
        }
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns its host in image references.
    pub fn host(&self) -> String {
        self.address().to_string()
    }
}

async fn relay(acceptor: TlsAcceptor, stream: TcpStream, upstream: SocketAddr) {
    // A failed handshake is the subject of some tests.
    let Ok(mut near) = acceptor.accept(stream).await else {
        return;
    };
    let Ok(mut far) = TcpStream::connect(upstream).await else {
        return;
    };
    let _ = copy_bidirectional(&mut near, &mut far).await;
}

fn settings(own: &Pair, clients: Option<&Path>) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("TLS versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_file(authority).expect("read an authority"))
                .expect("use an authority");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier of clients"))
        }
    };
    let chain = vec![CertificateDer::from_pem_file(&own.certificate).expect("read a certificate")];
    let key = PrivateKeyDer::from_pem_file(&own.key).expect("read a key");
    builder
        .with_single_cert(chain, key)
        .expect("use a certificate")
}

fn pair(dir: &Path, name: &str) -> Pair {
    Pair {
        certificate: dir.join(format!("{name}.pem")),
        key: dir.join(format!("{name}.key")),
    }
}

fn make(pair: &Pair, name: &str, more: &[&str]) {
    let status = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
        .args(["-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-subj", &format!("/CN={name}")])
        .arg("-keyout")
        .arg(&pair.key)
        .arg("-out")
        .arg(&pair.certificate)
        .args(more)
        .stderr(Stdio::null())
        .status()
        .expect("run openssl");
    assert!(status.success(), "openssl made no certificate for {name}");
}
