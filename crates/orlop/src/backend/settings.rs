//! Settings that the native and the docker backend share.

use std::net::SocketAddr;
use std::path::PathBuf;

use orlop_cri_server::sessions::Streaming;
use orlop_engine::config as engine;
use orlop_streaming::TlsTerms;

use crate::config::values::{AbsolutePath, CredentialsAt};
use crate::config::{Config, Images};

/// Returns the node's own credential files, in lookup order.
pub(super) fn credential_files(named: &[CredentialsAt]) -> Vec<PathBuf> {
    named.iter().flat_map(CredentialsAt::files).collect()
}

/// Returns the locations of the signature policy files.
pub(super) fn policy_files(section: &Images) -> engine::PolicyFiles {
    engine::PolicyFiles {
        node: section.signature_policy.as_ref().map(own_path),
        namespaces: section.signature_policy_dir.as_ref().map(own_path),
    }
}

/// Sets how the engine connects to registries.
pub(super) fn reach_registries(images: &mut engine::Images, section: &Images) {
    images.registry_dirs = section.hosts_dirs.iter().map(own_path).collect();
    images.credential_files = credential_files(&section.credentials);
    if let Some(path) = &section.registries_conf {
        images.registries = engine::RegistriesFile::at(own_path(path));
    }
    images.internal_hosts.clone_from(&section.internal_hosts);
    images.signature_stores = section.signature_stores.as_ref().map(own_path);
    images.max_connections = section.max_downloads.get() as usize;
    images.progress_timeout = section.progress_timeout.get();
    images.min_speed = section.min_speed.get();
}

pub(super) fn own_path(path: &AbsolutePath) -> PathBuf {
    path.to_path_buf()
}

pub(super) fn streaming(config: &Config) -> Streaming {
    let section = &config.streaming;
    let tls = section.tls_cert.as_ref().zip(section.tls_key.as_ref());
    Streaming {
        listen: SocketAddr::new(section.address, section.port),
        tls: tls.map(|(cert, key)| (cert.to_path_buf(), key.to_path_buf())),
        client_ca: section.client_ca.as_ref().map(|path| path.to_path_buf()),
        terms: TlsTerms {
            oldest: section.tls_min_version,
            suites: section.tls_cipher_suites.clone(),
        },
        idle_timeout: section.idle_timeout.get(),
    }
}
