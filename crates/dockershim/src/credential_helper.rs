//! Programs that know credentials: `docker-credential-…`, which `config.json` names.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use crate::docker::RegistryAuth;

/// One that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// More is no answer.
const LARGEST: u64 = 1 << 20;

/// How helpers are found and waited for.
#[derive(Debug)]
pub(crate) struct Helpers {
    /// Where they are; `None` looks through `PATH`.
    dir: Option<PathBuf>,
    patience: Duration,
}

impl Default for Helpers {
    fn default() -> Self {
        Self {
            dir: None,
            patience: PATIENCE,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

impl Helpers {
    /// Asks for the credentials of a server. `None` if the helper has none.
    pub(crate) async fn ask(
        &self,
        helper: &str,
        server: &str,
    ) -> Result<Option<RegistryAuth>, String> {
        if helper.is_empty() || helper.contains('/') {
            return Err("it is not the name of a credential helper".to_owned());
        }
        let name = format!("docker-credential-{helper}");
        let program = match &self.dir {
            Some(dir) => dir.join(name),
            None => name.into(),
        };
        let shown = program.display();
        let mut command = Command::new(&program);
        command.arg("get");
        let said = orlop_pool::ask(command, server.as_bytes(), LARGEST, self.patience)
            .await
            .map_err(|error| format!("running {shown}: {error}"))?;
        if !said.status.success() {
            let has_none = String::from_utf8_lossy(&said.answer).contains("credentials not found");
            return if has_none {
                Ok(None)
            } else {
                Err(format!("{shown} failed"))
            };
        }
        // The error could quote the answer.
        let answer: Answer = serde_json::from_slice(&said.answer)
            .map_err(|_| format!("{shown} gave an answer that cannot be read"))?;
        let mut found = RegistryAuth {
            serveraddress: server.to_owned(),
            ..RegistryAuth::default()
        };
        if answer.username == "<token>" {
            found.identitytoken = answer.secret;
        } else {
            (found.username, found.password) = (answer.username, answer.secret);
        }
        Ok(Some(found))
    }
}

#[cfg(test)]
impl Helpers {
    pub(crate) fn in_dir(dir: &std::path::Path) -> Self {
        Self {
            dir: Some(dir.to_owned()),
            patience: PATIENCE,
        }
    }

    /// Makes a helper of a shell script.
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
        let babbled = helpers.ask("babbles", "r.example").await.unwrap_err();
        assert!(babbled.contains("more than"), "{babbled}");
        let failed = helpers.ask("fails", "r.example").await.unwrap_err();
        assert!(!failed.contains("secret"), "{failed}");
        helpers.patience = Duration::from_millis(300);
        let hung = helpers.ask("hangs", "r.example").await.unwrap_err();
        assert!(hung.contains("did not answer"), "{hung}");
    }
}
