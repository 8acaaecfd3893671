//! Key providers: programs that unwrap keys which are nowhere on the node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_decrypt::{Options, Scheme, Wrapped};
use serde::Deserialize;
use tokio::process::Command;
use zeroize::Zeroizing;

use super::wrong;
use crate::Result;

/// No list of them is longer.
const LARGEST: u64 = 64 << 10;
/// No answer is longer.
const LONGEST_ANSWER: u64 = 64 << 10;
/// As much as anybody reads of what one has to say.
const LONGEST_COMPLAINT: usize = 300;
/// So many keys that are wrapped for it a provider is asked about.
const MOST_WRAPPINGS: usize = 4;
/// So long a provider may think.
const PATIENCE: Duration = Duration::from_secs(20);

/// The providers by their names.
#[derive(Debug, Default)]
pub(super) struct Providers(BTreeMap<String, Provider>);

#[derive(Debug, Deserialize)]
struct File {
    #[serde(rename = "key-providers", default)]
    providers: BTreeMap<String, Provider>,
}

#[derive(Debug, Deserialize)]
struct Provider {
    cmd: Option<Program>,
    /// Not asked yet: it is told, where one is wanted.
    grpc: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Program {
    path: PathBuf,
    #[serde(default)]
    args: Vec<String>,
}

impl Providers {
    /// Reads the file that names them. Blocks.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = orlop_disk::read_file(path, LARGEST).map_err(|error| wrong(path, error))?;
        let file: File = serde_json::from_slice(&text).map_err(|error| wrong(path, error))?;
        for (name, provider) in &file.providers {
            let Some(program) = &provider.cmd else {
                continue;
            };
            if !program.path.is_absolute() {
                let problem = format!("{name}: {:?} is not an absolute path", program.path);
                return Err(wrong(path, problem));
            }
        }
        Ok(Self(file.providers))
    }

    /// What a provider makes of the keys that are wrapped for it, or why it makes nothing of them.
    pub(super) async fn open(&self, name: &str, wrapped: &Wrapped) -> Result<Options, String> {
        let Some(provider) = self.0.get(name) else {
            return Err(
                "it is not configured; name it in the file of images.key_providers".to_owned(),
            );
        };
        let Some(program) = &provider.cmd else {
            return Err(match &provider.grpc {
                Some(_) => "services by gRPC are not supported; name a program by `cmd`".to_owned(),
                None => "it has no `cmd`".to_owned(),
            });
        };
        let mut last = "nothing is wrapped for it".to_owned();
        let scheme = Scheme::Provider(name.to_owned());
        for bytes in wrapped.by(&scheme).take(MOST_WRAPPINGS) {
            match program.ask(&orlop_decrypt::question(bytes)).await {
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

impl Program {
    async fn ask(&self, question: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        let mut program = Command::new(&self.path);
        program.args(&self.args);
        let said = orlop_pool::ask(program, question, LONGEST_ANSWER, PATIENCE).await;
        let said = said.map_err(|error| format!("{}: {error}", self.path.display()))?;
        let answer = Zeroizing::new(said.answer);
        if !said.status.success() {
            let complaint = String::from_utf8_lossy(&said.complaint);
            let complaint: String = complaint.trim().chars().take(LONGEST_COMPLAINT).collect();
            return Err(format!("{}: {complaint}", said.status));
        }
        orlop_decrypt::answer(&answer).map_err(|malformed| malformed.to_string())
    }
}
