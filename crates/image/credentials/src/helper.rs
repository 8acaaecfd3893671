//! Credential helper programs.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use crate::entry::Entry;
use crate::largest::LARGEST;

/// Timeout of a helper.
const PATIENCE: Duration = Duration::from_secs(30);

/// The user name with which a helper marks the secret as an identity token.
const TOKEN_USER: &str = "<token>";

/// Directory and timeout of the helper programs (`docker-credential-…`).
#[derive(Debug)]
pub struct Helpers {
    /// `None` searches `PATH`.
    dir: Option<PathBuf>,
    patience: Duration,
}

/// An error of a helper call.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// The helper's name is not a plain name, so it could run any program.
    #[error("{0:?} is not the name of a credential helper")]
    NotAName(String),
    /// The helper could not be started, or exceeded its limits.
    #[error("running {program}: {source}")]
    Run {
        /// The program.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// The helper failed for another reason than missing credentials.
    #[error("{0} failed")]
    Failed(String),
    /// The helper's output cannot be parsed. It is not quoted, because it could contain a password.
    #[error("the response of {0} is malformed")]
    Answer(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

impl Default for Helpers {
    fn default() -> Self {
        Self {
            dir: None,
            patience: PATIENCE,
        }
    }
}

impl Helpers {
    /// Returns the helpers of one directory only.
    pub fn in_dir(dir: &Path) -> Self {
        Self {
            dir: Some(dir.to_owned()),
            ..Self::default()
        }
    }

    /// Asks for the credentials of a server; returns `None` if the helper has none.
    pub async fn ask(&self, helper: &str, server: &str) -> Result<Option<Entry>, HelperError> {
        if helper.is_empty() || helper.contains('/') {
            return Err(HelperError::NotAName(helper.to_owned()));
        }
        let name = format!("docker-credential-{helper}");
        let path = match &self.dir {
            Some(dir) => dir.join(&name),
            None => PathBuf::from(&name),
        };
        let mut command = Command::new(path);
        command.arg("get");
        let said = match orlop_pool::ask(command, server.as_bytes(), LARGEST, self.patience).await {
            Ok(said) => said,
            Err(source) => {
                let program = name;
                return Err(HelperError::Run { program, source });
            }
        };
        if !said.status.success() {
            // All docker-credential-helpers use this message.
            let has_none = String::from_utf8_lossy(&said.answer).contains("credentials not found");
            return if has_none {
                Ok(None)
            } else {
                Err(HelperError::Failed(name))
            };
        }
        let answer: Answer =
            serde_json::from_slice(&said.answer).map_err(|_| HelperError::Answer(name))?;
        let mut found = Entry::default();
        if answer.username == TOKEN_USER {
            found.identity_token = answer.secret;
        } else {
            (found.username, found.password) = (answer.username, answer.secret);
        }
        Ok(Some(found))
    }
}

#[cfg(test)]
impl Helpers {
    /// Writes a shell script as a helper.
    pub(crate) fn write(&self, helper: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = self.dir.as_ref().unwrap();
        let path = dir.join(format!("docker-credential-{helper}"));
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_helper_that_hangs_or_never_stops_talking_holds_up_no_pull() {
        let dir = tempfile::tempdir().unwrap();
        let mut helpers = Helpers::in_dir(dir.path());
        helpers.write("babbles", "exec cat /dev/zero");
        helpers.write("hangs", "exec sleep 600");
        helpers.write("fails", "echo the secret is x; exit 3");
        helpers.write("odd", "echo the secret is x");
        helpers.write(
            "none",
            "echo credentials not found in native keychain; exit 1",
        );
        let said = async |helpers: &Helpers, helper: &str| {
            let asked = helpers.ask(helper, "r.example").await;
            asked.unwrap_err().to_string()
        };
        let babbled = said(&helpers, "babbles").await;
        assert!(
            babbled.contains("docker-credential-babbles") && babbled.contains("1048576 bytes"),
            "{babbled}"
        );
        for helper in ["fails", "odd"] {
            let failed = said(&helpers, helper).await;
            assert!(failed.contains(&format!("docker-credential-{helper}")));
            assert!(!failed.contains("secret"), "{failed}");
        }
        let sly = said(&helpers, "../own").await;
        assert!(sly.contains("not the name"), "{sly}");
        assert_eq!(helpers.ask("none", "r.example").await.unwrap(), None);
        helpers.patience = Duration::from_millis(300);
        let hung = said(&helpers, "hangs").await;
        assert!(hung.contains("did not answer"), "{hung}");
    }
}
