//! Authentication of clients of the agent's HTTP API.

use std::collections::BTreeMap;
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
use orlop_kuberuntime::text_file::read_text;

use super::{AgentError, AgentOptions};

/// Rejects settings that need an API server, before anything starts.
pub(super) fn check(options: &AgentOptions) -> Result<(), AgentError> {
    let written = &options.configuration;
    let refuse = |text: &str| Err(AgentError::Setting(text.to_owned()));
    if written.authentication.webhook.enabled {
        return refuse(
            "authentication.webhook.enabled: webhook authentication needs an API server, which a \
             standalone node does not have; set it to false and use \
             authentication.x509.clientCAFile or --token-auth-file",
        );
    }
    match written.authorization.mode.as_str() {
        "AlwaysAllow" | "" => {}
        "Webhook" => {
            return refuse(
                "authorization.mode Webhook needs an API server, which a standalone node does \
                 not have; set it to AlwaysAllow, which lets every authenticated client do \
                 everything",
            );
        }
        other => {
            let text = format!("authorization.mode must be AlwaysAllow, not {other:?}");
            return Err(AgentError::Setting(text));
        }
    }
    let open = written.authentication.anonymous.enabled && !written.address.is_loopback();
    if open && written.enable_server {
        tracing::warn!(
            address = %written.address,
            "anonymous access is on and authorization is AlwaysAllow: every client that reaches \
             this address may run commands in the pods"
        );
    }
    if let Some(warning) = who_may_do_everything(options) {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// Returns a warning if clients have access without authorization.
fn who_may_do_everything(options: &AgentOptions) -> Option<String> {
    let written = &options.configuration;
    let authority = &written.authentication.x509.client_ca_file;
    let certificates = (!authority.is_empty()).then(|| {
        format!(
            "clients with a certificate signed by an authority in {authority} \
             (authentication.x509.clientCAFile)"
        )
    });
    let tokens = options.token_file.as_ref().map(|file| {
        format!(
            "clients with a token in {} (--token-auth-file)",
            file.display()
        )
    });
    let let_in: Vec<_> = certificates.into_iter().chain(tokens).collect();
    (written.enable_server && !let_in.is_empty()).then(|| {
        format!(
            "authorization.mode is AlwaysAllow: {} may run commands in all pods; use a \
             certificate authority that is only for the agent, not a cluster's",
            let_in.join(", and "),
        )
    })
}

/// The credentials that give access.
#[derive(Debug, Default)]
pub(super) struct Access {
    anonymous: bool,
    /// User names by the hash of their token; the tokens themselves are not kept.
    tokens: BTreeMap<[u8; 32], String>,
}

/// The identity of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Caller {
    /// The client has a certificate of the authority, or uses the control socket of root.
    Trusted,
    /// The client has a token.
    Named(String),
    /// The client has no credentials.
    Anonymous,
}

impl Access {
    /// Reads the token file.
    pub(super) fn new(options: &AgentOptions) -> Result<Self, AgentError> {
        let tokens = match &options.token_file {
            None => BTreeMap::new(),
            Some(path) => tokens(path)?,
        };
        Ok(Self {
            anonymous: options.configuration.authentication.anonymous.enabled,
            tokens,
        })
    }

    /// Authenticates a request by certificate or `Authorization` header. A wrong token is rejected,
    /// even if anonymous access is enabled.
    pub(super) fn caller(&self, certificate: bool, authorization: Option<&str>) -> Option<Caller> {
        if certificate {
            return Some(Caller::Trusted);
        }
        match authorization.map(|text| text.split_once(' ').unwrap_or((text, ""))) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => self
                .tokens
                .get(&sum(token.trim()))
                .cloned()
                .map(Caller::Named),
            Some(_) => None,
            None => self.anonymous.then_some(Caller::Anonymous),
        }
    }
}

/// Hashes a token.
fn sum(token: &str) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    sum
}

/// Size limit of the token file in bytes.
const LARGEST: u64 = 10 << 20;

/// Reads `token,user,uid,"groups"` lines, the format of an API server's `--token-auth-file`.
fn tokens(path: &Path) -> Result<BTreeMap<[u8; 32], String>, AgentError> {
    let text = read_text(path, LARGEST).map_err(|source| AgentError::File {
        path: path.to_owned(),
        source,
    })?;
    let mut tokens = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut fields = line.split(',').map(|field| field.trim().trim_matches('"'));
        match (fields.next(), fields.next()) {
            (Some(token), Some(user)) if !token.is_empty() && !user.is_empty() => {
                tokens.insert(sum(token), user.to_owned());
            }
            _ => {
                return Err(AgentError::Setting(format!(
                    "{}:{}: a line must have the form token,user,uid",
                    path.display(),
                    number + 1
                )));
            }
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use orlop_testkit::said_of_hostile_files;

    use super::*;

    #[test]
    fn who_may_run_commands_everywhere_is_said_at_the_start() {
        let mut options = AgentOptions::new("n", "/nowhere");
        options.configuration.enable_server = true;
        assert_eq!(who_may_do_everything(&options), None);
        options.configuration.authentication.x509.client_ca_file = "/etc/ca.crt".to_owned();
        let said = who_may_do_everything(&options).unwrap();
        assert!(
            said.contains("/etc/ca.crt") && said.contains("all pods"),
            "{said}"
        );
        options.token_file = Some("/etc/tokens".into());
        let said = who_may_do_everything(&options).unwrap();
        assert!(said.contains("/etc/tokens"), "{said}");
        options.configuration.enable_server = false;
        assert_eq!(who_may_do_everything(&options), None);
    }

    #[test]
    fn callers_are_who_they_show_to_be() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens.csv");
        std::fs::write(&path, "# people\ns3cret,ann,1,\"a,b\"\n\n").unwrap();
        let mut options = AgentOptions::new("n", "/nowhere");
        options.token_file = Some(path.clone());
        let strict = Access::new(&options).unwrap();
        options.configuration.authentication.anonymous.enabled = true;
        let open = Access::new(&options).unwrap();
        let ann = Some(Caller::Named("ann".to_owned()));
        for (certificate, header, by_strict, by_open) in [
            (false, None, None, Some(Caller::Anonymous)),
            (true, None, Some(Caller::Trusted), Some(Caller::Trusted)),
            (false, Some("Bearer s3cret"), ann.clone(), ann.clone()),
            (false, Some("bearer  s3cret"), ann.clone(), ann),
            (false, Some("Bearer wrong"), None, None),
            (false, Some("Bearer"), None, None),
            (false, Some("Basic s3cret"), None, None),
        ] {
            assert_eq!(strict.caller(certificate, header), by_strict, "{header:?}");
            assert_eq!(open.caller(certificate, header), by_open, "{header:?}");
        }
        std::fs::write(&path, "only-a-token\n").unwrap();
        assert!(Access::new(&options).is_err());
    }

    #[test]
    fn webhooks_are_refused() {
        let mut options = AgentOptions::new("n", "/nowhere");
        assert!(check(&options).is_ok());
        options.configuration.authorization.mode = "Webhook".to_owned();
        assert!(check(&options).is_err());
        options.configuration.authorization.mode = "AlwaysAllow".to_owned();
        options.configuration.authentication.webhook.enabled = true;
        assert!(
            check(&options)
                .unwrap_err()
                .to_string()
                .contains("token-auth-file")
        );
    }

    #[test]
    fn a_file_of_tokens_without_end_is_told_by_its_name_and_limit() {
        let [large, pipe] = said_of_hostile_files("tokens", |path| {
            tokens(path).expect_err("an error").to_string()
        });
        assert!(
            large.contains("DIR/tokens") && large.contains("10485760"),
            "{large}"
        );
        assert!(pipe.contains("DIR/tokens"), "{pipe}");
    }
}
