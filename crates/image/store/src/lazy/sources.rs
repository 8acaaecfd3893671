//! Registries and credentials that lazy layers are fetched with.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::registries::Asking;
use crate::registry::{Keyring, Remote, Settings, Transport, next_number};
use crate::{Repository, Result};

/// Maximum number of remembered repositories, and of credentials for each.
const MOST_REPOSITORIES: usize = 256;
const MOST_CREDENTIALS: usize = 8;
/// Interval after which a registry's settings are read again.
const FRESH: Duration = Duration::from_mins(5);

/// The repositories that lazy layers come from.
pub(super) struct Sources {
    now: RwLock<Arc<Now>>,
    known: Mutex<Known>,
}

/// The credentials of each repository, and the order in which the repositories were last used.
#[derive(Default)]
struct Known {
    repositories: HashMap<Repository, Entry>,
    clock: u64,
}

#[derive(Default)]
struct Entry {
    sources: Vec<Source>,
    used: u64,
}

impl Known {
    fn entry(&mut self, repository: &Repository) -> &mut Vec<Source> {
        self.clock += 1;
        let entry = self.repositories.entry(repository.clone()).or_default();
        entry.used = self.clock;
        &mut entry.sources
    }

    /// Makes room for one repository. Repositories in `in_use` always stay.
    fn make_room(&mut self, in_use: &HashSet<Repository>) {
        while self.repositories.len() >= MOST_REPOSITORIES {
            let entries = self.repositories.iter();
            let unused = entries.filter(|(repository, _)| !in_use.contains(*repository));
            let oldest = unused.min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(repository, _)| repository.clone()) else {
                return;
            };
            self.repositories.remove(&oldest);
        }
    }
}

/// Settings and connections for requests to the registries.
struct Now {
    settings: Settings,
    transport: Arc<Transport>,
}

/// Credentials of a repository, and the client that uses them.
struct Source {
    keyring: Keyring,
    /// The client and the time it was opened; opened on demand.
    remote: Option<(Arc<Remote>, Instant)>,
}

impl Source {
    fn new(keyring: Keyring) -> Self {
        Self {
            keyring,
            remote: None,
        }
    }

    fn is_refused(&self) -> bool {
        let remote = self.remote.as_ref();
        remote.is_some_and(|(remote, _)| remote.is_refused())
    }
}

impl Sources {
    /// Creates sources with their own connections, so that pulls do not slow down readers.
    pub(super) fn new(settings: Settings) -> Self {
        let transport = Arc::new(Transport::new(&settings));
        Self {
            now: RwLock::new(Arc::new(Now {
                settings,
                transport,
            })),
            known: Mutex::default(),
        }
    }

    /// Applies new registry settings.
    pub(super) async fn reconfigure(&self, settings: Settings) {
        let transport = {
            let old = self.now.read();
            if Transport::is_alike(&old.settings, &settings) {
                Arc::clone(&old.transport)
            } else {
                Arc::new(Transport::new(&settings))
            }
        };
        *self.now.write() = Arc::new(Now {
            settings,
            transport,
        });
        let mut known = self.known.lock().await;
        let entries = known.repositories.values_mut();
        for source in entries.flat_map(|entry| &mut entry.sources) {
            // Refused credentials stay refused.
            if !source.is_refused() {
                source.remote = None;
            }
        }
    }

    pub(super) async fn clear(&self) {
        self.known.lock().await.repositories.clear();
    }

    /// Remembers credentials. Credentials that are not `proven` may be arbitrary, because a pull by digest of an
    /// existing image needs none. They count only if there are no others. If there are too many repositories, forgets
    /// the least recently used one that is not in `in_use`.
    pub(super) async fn note(
        &self,
        repository: &Repository,
        keyring: &Keyring,
        proven: bool,
        in_use: impl FnOnce() -> HashSet<Repository>,
    ) {
        let mut known = self.known.lock().await;
        if known.repositories.len() >= MOST_REPOSITORIES
            && !known.repositories.contains_key(repository)
        {
            known.make_room(&in_use());
        }
        let sources = known.entry(repository);
        if !proven && sources.iter().any(|source| !source.is_refused()) {
            return;
        }
        let same = |source: &Source| source.keyring == *keyring;
        if proven {
            // The registry now accepts these credentials.
            sources.retain(|source| !same(source) || !source.is_refused());
        }
        if sources.iter().any(same) {
            return;
        }
        if sources.len() >= MOST_CREDENTIALS {
            let refused = sources.iter().position(Source::is_refused);
            sources.remove(refused.unwrap_or(sources.len() - 1));
        }
        sources.insert(0, Source::new(keyring.clone()));
    }

    /// Returns clients for these repositories, one for each usable set of credentials.
    pub(super) async fn of(&self, repositories: &[Repository]) -> Result<Vec<Arc<Remote>>> {
        let mut known = self.known.lock().await;
        let mut remotes = Vec::new();
        for repository in repositories {
            let sources = known.entry(repository);
            // After a restart only the node's own credentials are known.
            if sources.is_empty() {
                sources.push(Source::new(Keyring::default()));
            }
            let all_are_refused = sources.iter().all(Source::is_refused);
            for source in sources {
                if all_are_refused || !source.is_refused() {
                    remotes.push(self.open(repository, source).await?);
                }
            }
        }
        Ok(remotes)
    }

    async fn open(&self, repository: &Repository, source: &mut Source) -> Result<Arc<Remote>> {
        match &source.remote {
            Some((remote, opened)) if opened.elapsed() < FRESH => return Ok(Arc::clone(remote)),
            _ => {}
        }
        let now = Arc::clone(&self.now.read());
        let opening = Remote::open(
            Arc::clone(&now.transport),
            &now.settings,
            repository.clone(),
            Asking::Content,
            source.keyring.clone(),
            next_number(),
        );
        let remote = Arc::new(opening.await?);
        source.remote = Some((Arc::clone(&remote), Instant::now()));
        Ok(remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Reference};

    fn repository(name: &str) -> Repository {
        let reference: Reference = format!("registry.test/{name}:1").parse().unwrap();
        reference.repository().clone()
    }

    #[tokio::test]
    async fn credentials_of_lazy_layers_outlive_pulls_from_hundreds_of_other_repositories() {
        let sources = Sources::new(Config::new(std::env::temp_dir()).registry());
        let (used, unused) = (repository("used"), repository("unused"));
        let in_use = || HashSet::from([used.clone()]);
        for name in [&used, &unused] {
            sources.note(name, &Keyring::default(), true, in_use).await;
        }
        for n in 0..2 * MOST_REPOSITORIES {
            let other = repository(&format!("other/{n}"));
            let keyring = Keyring::default();
            sources.note(&other, &keyring, false, in_use).await;
        }
        let known = &sources.known.lock().await.repositories;
        assert_eq!(known.len(), MOST_REPOSITORIES);
        assert!(known.contains_key(&used));
        assert!(!known.contains_key(&unused));
        assert!(known.contains_key(&repository(&format!("other/{}", 2 * MOST_REPOSITORIES - 1))));
    }
}
