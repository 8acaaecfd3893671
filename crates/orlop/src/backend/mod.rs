//! Who answers the CRI calls.

mod docker;
mod native;
mod start;

use std::net::SocketAddr;
use std::path::PathBuf;

use orlop_service::sessions::Streaming;

use crate::config::Config;
use crate::config::values::CredentialsAt;

pub(crate) use native::engine_config;
pub(crate) use start::{Metrics, Reconfigurable, Running, start};

/// The files with the node's own credentials, in the order in which they are asked.
fn credential_files(named: &[CredentialsAt]) -> Vec<PathBuf> {
    named.iter().flat_map(CredentialsAt::files).collect()
}

fn streaming(config: &Config) -> Streaming {
    let section = &config.streaming;
    let tls = section.tls_cert.as_ref().zip(section.tls_key.as_ref());
    Streaming {
        listen: SocketAddr::new(section.address, section.port),
        tls: tls.map(|(cert, key)| (cert.to_path_buf(), key.to_path_buf())),
        idle_timeout: section.idle_timeout.get(),
    }
}
