//! Explains which hosts a pull would ask for an image, and with which settings, without pulling.

use super::auth::Authorizer;
use super::host::{Host, SourceOf};
use super::keyring::Keyring;
use super::settings::Settings;
use super::sources::hosts_of_one;
use crate::blocking::blocking;
use crate::registries::{Asking, Pulls, Rule, Source};
use crate::{Reference, Result};

/// The resolution of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The rule that resolved the name.
    pub rule: Rule,
    /// The full names, in the order in which they are tried.
    pub names: Vec<ExplainedName>,
}

/// A full name, and the hosts that are asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedName {
    /// The name.
    pub name: Reference,
    /// The reason why no host is asked.
    pub refusal: Option<String>,
    /// The hosts, in the order in which they are asked.
    pub hosts: Vec<AskedHost>,
}

/// A host that is asked, or that would be asked for a different tag or digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedHost {
    /// URL of the repository at the host.
    pub url: String,
    /// Whether it is a mirror.
    pub is_mirror: bool,
    /// The reason why it is not asked for this name.
    pub not_asked: Option<&'static str>,
    /// Whether it may resolve tags.
    pub tags: bool,
    /// Whether it may serve content.
    pub content: bool,
    /// Whether any certificate is accepted.
    pub skip_verify: bool,
    /// Whether it is asked only if the previous host does not answer.
    pub is_fallback: bool,
    /// The line in `registries.conf` that names it.
    pub source: Option<String>,
    /// The line or directory with the settings of the host.
    pub settings: Option<String>,
    /// The source of its credentials; never a secret.
    pub credentials: Option<String>,
}

/// Returns the hosts that pods of a namespace would ask for an image, in order.
pub(crate) async fn explain(settings: &Settings, text: &str, namespace: &str) -> Result<Explained> {
    let (file, keys) = (
        settings.registries.clone(),
        settings.namespace_credentials.clone(),
    );
    let (name, namespace) = (text.to_owned(), namespace.to_owned());
    let read = blocking(move || {
        let registries = file.read()?;
        let candidates = registries.candidates(&name)?;
        let files = keys.files(&namespace, &name.parse()?)?;
        Ok((registries, candidates, files))
    });
    let (registries, candidates, files) = read.await?;
    let mut names = Vec::new();
    for name in candidates.names {
        let asking = Asking::For(name.selector().clone());
        let keyring = Keyring {
            given: None,
            files: files.clone(),
        };
        let files = settings.credential_files.clone();
        let authorizer = Authorizer::new(keyring, files, registries.helpers());
        let (hosts, refusal) = match registries.sources(name.repository(), &asking) {
            Ok(sources) => (hosts(settings, sources, &asking, &authorizer).await, None),
            Err(error) => (Ok(Vec::new()), Some(error)),
        };
        let (hosts, refusal) = match hosts {
            Ok(hosts) => (hosts, refusal),
            Err(error) => (Vec::new(), Some(error)),
        };
        names.push(ExplainedName {
            name,
            refusal: refusal.map(|error| orlop_text::with_causes(&error)),
            hosts,
        });
    }
    Ok(Explained {
        rule: candidates.rule,
        names,
    })
}

async fn hosts(
    settings: &Settings,
    sources: Vec<Source>,
    asking: &Asking,
    authorizer: &Authorizer,
) -> Result<Vec<AskedHost>> {
    let mut asked = Vec::new();
    for source in sources {
        let (dirs, of) = (settings.dirs.clone(), source.clone());
        let hosts = blocking(move || hosts_of_one(&dirs, &of)).await?;
        let not_asked = match source.pulls {
            _ if source.serves(asking) => None,
            Pulls::ByTag => Some("it serves only pulls by tag"),
            _ => Some("it serves only pulls by digest"),
        };
        for (number, host) in hosts.iter().enumerate() {
            let mut one = asked_host(host, &source);
            one.not_asked = not_asked;
            one.is_fallback = number > 0 && host.twin.is_some() && host.base.scheme() == "http";
            if not_asked.is_none() {
                let known = authorizer.known(&source.repository, host).await;
                one.credentials = known?.map(|known| known.source);
            }
            asked.push(one);
        }
    }
    Ok(asked)
}

fn asked_host(host: &Host, source: &Source) -> AskedHost {
    let base = host.base.as_str().trim_end_matches('/');
    let of = host.source.as_ref();
    let ns = if host.is_own {
        String::new()
    } else {
        format!("?ns={}", source.repository.domain())
    };
    AskedHost {
        url: format!("{base}/{}{ns}", source.repository.path()),
        is_mirror: source.is_mirror || !host.is_own,
        not_asked: None,
        tags: host.resolve,
        content: host.pull,
        skip_verify: host.tls.skip_verify,
        is_fallback: false,
        source: of.and_then(SourceOf::said_at),
        settings: host.told_by.clone(),
        credentials: None,
    }
}

impl SourceOf {
    fn said_at(&self) -> Option<String> {
        self.place.as_ref().map(ToString::to_string)
    }
}
