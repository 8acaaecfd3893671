//! Registry credentials, from flags or a prompt.

use std::io::{self, BufRead, Write};

use anyhow::{Context, bail};
use orlop_cri_api::v1::AuthConfig;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// Flags that name credentials.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct CredentialFlags {
    /// Credentials for the registry
    #[arg(
        long,
        value_name = "USERNAME[:PASSWORD]",
        env = "CRICTL_CREDS",
        hide_env_values = true
    )]
    creds: Option<String>,

    /// Credentials for the registry, in base64 as in the config.json of Docker
    #[arg(long, value_name = "AUTH", env = "CRICTL_AUTH", hide_env_values = true)]
    auth: Option<String>,

    /// User name for the registry; prompts for the password
    #[arg(short, long)]
    username: Option<String>,
}

impl CredentialFlags {
    /// Returns the credentials, if any were given.
    pub(crate) fn resolve(&self) -> anyhow::Result<Option<AuthConfig>> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(username) = given(&self.username) {
            let password = ask()?;
            return Ok(Some(AuthConfig {
                username,
                password,
                ..Default::default()
            }));
        }
        Ok(match (given(&self.creds), given(&self.auth)) {
            (Some(_), Some(_)) => bail!("give either --creds or --auth, not both"),
            (Some(creds), None) => {
                let (username, password) = creds.split_once(':').unwrap_or((&creds, ""));
                if username.is_empty() {
                    bail!("the credentials have no user name; write USERNAME[:PASSWORD]");
                }
                Some(AuthConfig {
                    username: username.to_owned(),
                    password: password.to_owned(),
                    ..Default::default()
                })
            }
            (None, Some(auth)) => Some(AuthConfig {
                auth,
                ..Default::default()
            }),
            (None, None) => None,
        })
    }
}

/// Reads a line from the terminal without echo, or from a pipe.
fn ask() -> anyhow::Result<String> {
    let stdin = io::stdin();
    let shown = tcgetattr(&stdin).ok();
    if let Some(shown) = &shown {
        eprint!("Password: ");
        io::stderr().flush()?;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Flush, &hidden)
            .context("cannot turn off the terminal echo for the password")?;
    }
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    if let Some(shown) = &shown {
        tcsetattr(&stdin, OptionalActions::Flush, shown)
            .context("cannot restore the terminal settings")?;
        say!();
    }
    read.context("cannot read the password")?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_split_at_the_first_colon() {
        let auth = |creds: &str| {
            CredentialFlags {
                creds: Some(creds.into()),
                ..Default::default()
            }
            .resolve()
        };
        let given = auth("user:pass:word").unwrap().unwrap();
        assert_eq!(
            (given.username.as_str(), given.password.as_str()),
            ("user", "pass:word")
        );
        assert_eq!(auth("user").unwrap().unwrap().password, "");
        assert!(auth(":word").is_err());
        let both = CredentialFlags {
            creds: Some("a:b".into()),
            auth: Some("c".into()),
            username: None,
        };
        assert!(both.resolve().is_err());
        assert_eq!(CredentialFlags::default().resolve().unwrap(), None);
    }
}
