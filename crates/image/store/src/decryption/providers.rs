//! Key providers: programs and services that unwrap keys which are not stored on the node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_encryption::{Options, Scheme, Wrapped};
use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;
use zeroize::Zeroizing;

use crate::{Error, Result};

mod answer;
mod grpc;

use answer::{LONGEST_ANSWER, complaint};
use grpc::Address;

/// Maximum size of the configuration file.
const LARGEST: u64 = 64 << 10;
/// Maximum number of wrapped keys of a layer that a provider is asked about.
const MOST_WRAPPINGS: usize = 4;
/// Timeout of a provider.
const PATIENCE: Duration = Duration::from_secs(20);

/// The providers by name.
#[derive(Debug, Default)]
pub(super) struct Providers(BTreeMap<String, Provider>);

#[derive(Debug, Deserialize)]
struct File {
    #[serde(rename = "key-providers", default)]
    providers: BTreeMap<String, Described>,
}

#[derive(Debug, Deserialize)]
struct Described {
    cmd: Option<Program>,
    grpc: Option<String>,
    /// All other settings.
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

/// A program or service that unwraps keys.
#[derive(Debug)]
pub(super) enum Provider {
    Program(Program),
    Service(Address),
}

#[derive(Debug, Deserialize)]
pub(super) struct Program {
    path: PathBuf,
    #[serde(default)]
    args: Vec<String>,
}

impl Providers {
    /// Reads the configuration file. Blocks.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = orlop_fs::read_file(path, LARGEST).map_err(|error| Error::keys(path, error))?;
        Self::parse(&text).map_err(|reason| Error::keys(path, reason))
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let file: File = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let providers =
            file.providers
                .into_iter()
                .map(|(name, described)| match Provider::of(described) {
                    Ok(provider) => Ok((name, provider)),
                    Err(reason) => Err(format!("{name}: {reason}")),
                });
        Ok(Self(providers.collect::<Result<_, _>>()?))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Provider> {
        self.0.get(name)
    }
}

impl Provider {
    fn of(described: Described) -> Result<Self, String> {
        match described {
            Described {
                cmd: Some(program), ..
            } if program.path.is_absolute() => Ok(Self::Program(program)),
            Described {
                cmd: Some(Program { path, .. }),
                ..
            } => Err(format!("{path:?} is not an absolute path")),
            // Ignoring an unsupported setting, such as encryption, would be insecure.
            Described {
                grpc: Some(_),
                more,
                ..
            } if !more.is_empty() => {
                let names: Vec<_> = more.keys().map(|name| format!("{name:?}")).collect();
                Err(format!(
                    "{} is not supported together with `grpc`",
                    names.join(", ")
                ))
            }
            Described {
                grpc: Some(address),
                ..
            } => address.parse().map(Self::Service),
            _ => Err("it has neither `cmd` nor `grpc`".to_owned()),
        }
    }

    /// Unwraps one of the keys that are wrapped for this provider, or returns the reason of the failure.
    pub(super) async fn open(&self, name: &str, wrapped: &Wrapped) -> Result<Options, String> {
        let mut last = "the layer has no key that is wrapped for this key provider".to_owned();
        let scheme = Scheme::Provider(name.to_owned());
        for bytes in wrapped.by(&scheme).take(MOST_WRAPPINGS) {
            let question = orlop_encryption::question(bytes);
            let asked = match self {
                Self::Program(program) => program.ask(&question).await,
                Self::Service(address) => address.ask(question, PATIENCE).await,
            };
            match asked {
                Ok(private) => {
                    return wrapped
                        .options(&private)
                        .map_err(|refused| refused.to_string());
                }
                Err(reason) => last = reason,
            }
        }
        Err(last)
    }
}

/// Returns the network addresses of the services in a configuration file, for fuzzing.
pub(crate) fn provider_addresses(text: &[u8]) -> Option<Vec<SocketAddr>> {
    let providers = Providers::parse(text).ok()?.0;
    let addresses = providers.into_values().filter_map(|it| match it {
        Provider::Service(Address::Loopback(addresses)) => Some(addresses),
        _ => None,
    });
    Some(addresses.flatten().collect())
}

impl Program {
    async fn ask(&self, question: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        let mut program = Command::new(&self.path);
        program.args(&self.args);
        let said = orlop_pool::ask(program, question, LONGEST_ANSWER as u64, PATIENCE).await;
        let said = said.map_err(|error| format!("{}: {error}", self.path.display()))?;
        let answer = Zeroizing::new(said.answer);
        if !said.status.success() {
            let complaint = complaint(&String::from_utf8_lossy(&said.complaint));
            return Err(format!("{}: {complaint}", said.status));
        }
        orlop_encryption::answer(&answer).map_err(|malformed| malformed.to_string())
    }
}
