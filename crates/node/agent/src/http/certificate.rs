//! The self-signed certificate of the agent.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use orlop_fs::Outlives;
use orlop_listen::TlsFiles;
use rcgen::{CertificateParams, DnType, KeyPair};

use crate::{AgentError, AgentOptions};

/// Returns the configured certificate, or a self-signed one in the certificate directory. Writes
/// files.
pub(super) fn files(options: &AgentOptions) -> Result<TlsFiles, AgentError> {
    let written = &options.configuration;
    let client_ca = &written.authentication.x509.client_ca_file;
    let client_ca = (!client_ca.is_empty()).then(|| PathBuf::from(client_ca));
    match (
        written.tls_cert_file.as_str(),
        written.tls_private_key_file.as_str(),
    ) {
        ("", "") => own(options, client_ca),
        ("", _) | (_, "") => {
            let text = "set both tlsCertFile and tlsPrivateKeyFile, or neither";
            Err(AgentError::Setting(text.to_owned()))
        }
        (certificate, key) => Ok(TlsFiles {
            certificate: certificate.into(),
            key: key.into(),
            client_ca,
        }),
    }
}

fn own(options: &AgentOptions, client_ca: Option<PathBuf>) -> Result<TlsFiles, AgentError> {
    let directory = &options.cert_dir;
    // The kubelet's file names.
    let files = TlsFiles {
        certificate: directory.join("kubelet.crt"),
        key: directory.join("kubelet.key"),
        client_ca,
    };
    if files.certificate.is_file() && files.key.is_file() {
        return Ok(files);
    }
    crate::shared::private_directory(directory)?;
    let mut names = vec![options.node_name.clone(), "localhost".to_owned()];
    let addresses = [options.node_ip, Some(options.configuration.address)];
    let addresses = addresses
        .into_iter()
        .flatten()
        .filter(|ip| !ip.is_unspecified());
    names.extend(addresses.map(|ip: IpAddr| ip.to_string()));
    names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
    names.dedup();
    let wrong = |error: rcgen::Error| AgentError::Certificate(error.to_string());
    let key = KeyPair::generate().map_err(wrong)?;
    let mut params = CertificateParams::new(names).map_err(wrong)?;
    let common = format!("{}@orlop", options.node_name);
    params.distinguished_name.push(DnType::CommonName, common);
    let certificate = params.self_signed(&key).map_err(wrong)?;
    write(&files.key, 0o600, &key.serialize_pem())?;
    write(&files.certificate, 0o644, &certificate.pem())?;
    tracing::info!(path = %files.certificate.display(), "created a certificate for the HTTPS server");
    Ok(files)
}

fn write(path: &Path, mode: u32, text: &str) -> Result<(), AgentError> {
    orlop_fs::write_file(path, mode, Outlives::PowerCut, text.as_bytes()).map_err(|source| {
        AgentError::File {
            path: path.to_owned(),
            source,
        }
    })
}
