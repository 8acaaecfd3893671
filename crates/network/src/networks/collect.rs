//! Releasing what belongs to nobody.

use std::net::IpAddr;
use std::path::Path;

use super::shared::Inner;
use crate::cni::{CachedAttachment, NetworkConf};
use crate::journal::JournalEntry;
use crate::plugins::{Chain, Target};
use crate::{ContainerId, Error};

/// What a garbage collection did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Pods detached because nobody knows them any more.
    pub released: Vec<String>,
    /// Pods (or networks) for which that failed, and why; the next run retries.
    pub failed: Vec<(String, String)>,
    /// Networks whose plugins were not asked to collect, pods being attached
    /// and detached all the time; the next run asks them.
    pub put_off: Vec<String>,
}

/// What a garbage collection would release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orphan {
    /// The pod that had it.
    pub id: String,
    /// The networks it is attached to, as far as known.
    pub networks: Vec<String>,
    /// Its addresses, as far as known.
    pub ips: Vec<IpAddr>,
}

impl Inner {
    /// What [`Self::gc`] would release. What plugins would find by themselves is not among it:
    /// they can't be asked without doing it.
    pub(super) fn orphans(
        &self,
        is_valid: &dyn Fn(&ContainerId) -> bool,
    ) -> Result<Vec<Orphan>, Error> {
        let mut orphans: Vec<Orphan> = Vec::new();
        for id in self.journal.ids()? {
            if is_valid(&id) {
                continue;
            }
            let entry = self.journal.get(&id);
            orphans.push(Orphan {
                id: id.to_string(),
                networks: entry.iter().flat_map(names).collect(),
                ips: entry
                    .and_then(|entry| entry.result)
                    .map(|result| result.ips)
                    .unwrap_or_default(),
            });
        }
        for cached in self.forsaken(is_valid)? {
            if !orphans
                .iter()
                .any(|orphan| orphan.id == cached.container_id)
            {
                orphans.push(Orphan {
                    id: cached.container_id,
                    networks: vec![cached.network.name],
                    ips: Vec::new(),
                });
            }
        }
        Ok(orphans)
    }

    fn forsaken(
        &self,
        is_valid: &dyn Fn(&ContainerId) -> bool,
    ) -> Result<Vec<CachedAttachment>, Error> {
        let mut cached = self.cached()?;
        cached.retain(|cached| is_forsaken(cached, is_valid));
        Ok(cached)
    }

    /// What is in the cache that is shared with other tools.
    pub(super) fn cached(&self) -> Result<Vec<CachedAttachment>, Error> {
        self.cache.list().map_err(|source| Error::Io {
            action: "list the cache of attachments in",
            path: self.config().cache_dir.clone(),
            source,
        })
    }

    pub(super) fn gc(&self, is_valid: &dyn Fn(&ContainerId) -> bool) -> Result<GcReport, Error> {
        let mut report = GcReport::default();
        self.release_journalled(is_valid, &mut report)?;
        self.release_cached(is_valid, &mut report)?;
        self.tell_plugins(&mut report);
        Ok(report)
    }

    fn release_journalled(
        &self,
        is_valid: &dyn Fn(&ContainerId) -> bool,
        report: &mut GcReport,
    ) -> Result<(), Error> {
        for id in self.journal.ids()? {
            if is_valid(&id) {
                continue;
            }
            let _alone = self.gates.pod_blocking(&id);
            // Somebody else may have been at work on it until now.
            if is_valid(&id) {
                continue;
            }
            let done = match self.journal.known(&id) {
                Ok(None) => continue,
                Ok(Some(entry)) => self.detach_entry(&entry),
                // Torn by a power loss: there is nothing to go by but the cache.
                Err(_) => self
                    .detach(&crate::Attachment::new(id.clone(), ""), None)
                    .and_then(|()| self.journal.forget(&id, self.config().max_networks.max(1))),
            };
            match done {
                Ok(()) => report.released.push(id.to_string()),
                Err(error) => report.failed.push((id.to_string(), error.with_causes())),
            }
        }
        Ok(())
    }

    fn release_cached(
        &self,
        is_valid: &dyn Fn(&ContainerId) -> bool,
        report: &mut GcReport,
    ) -> Result<(), Error> {
        for cached in self.forsaken(is_valid)? {
            let id = cached.container_id.as_str();
            let pod = id.parse().ok();
            let _alone = pod.map(|id: ContainerId| self.gates.pod_blocking(&id));
            let network = &cached.network.name;
            let now = self.cache.get(network, id, &cached.if_name);
            if !now.is_some_and(|now| is_forsaken(&now, is_valid)) {
                continue;
            }
            let target = Target {
                container_id: id,
                if_name: &cached.if_name,
                netns: None,
                args: &cached.args,
            };
            let done = Chain::new(&cached.network, &self.config()).and_then(|chain| {
                let del = || chain.del(target, Some(&cached.result));
                self.gates.beside_others(network, del)
            });
            match done {
                Ok(()) => {
                    let _ = self.cache.remove(network, id, &cached.if_name);
                    report.released.push(id.to_owned());
                }
                Err(error) => report
                    .failed
                    .push((id.to_owned(), orlop_text::with_causes(&*error))),
            }
        }
        Ok(())
    }

    /// All plugins are told even if one fails; the first failure of a network is reported.
    fn tell_plugins(&self, report: &mut GcReport) {
        let Ok(networks) = self.networks_of(&self.config().conf_dir) else {
            return;
        };
        for network in &networks {
            match self.tell_plugins_of(network) {
                Ok(Told::All) => {}
                Ok(Told::PutOff) => report.put_off.push(network.name.clone()),
                Err(error) => {
                    let problem = error.with_causes();
                    report.failed.push((network.name.clone(), problem));
                }
            }
        }
    }

    fn tell_plugins_of(&self, network: &NetworkConf) -> Result<Told, Error> {
        let config = self.config();
        let chain = Chain::new(network, &config)?;
        let mut first = Ok(Told::All);
        for plugin in chain.collectors() {
            // For each anew: who waits lets one plugin pass, not all of them.
            let Some(_alone) = self.gates.alone(&network.name) else {
                return first.and(Ok(Told::PutOff));
            };
            // What is not in the journal yet waits until this plugin is done. What is left out of
            // the list is released, be it in use: a list that cannot be made is told to nobody.
            let done = chain.gc(plugin, &self.attached_to(&network.name)?);
            if let (Err(error), true) = (done, first.is_ok()) {
                first = Err(error.into());
            }
        }
        first
    }

    /// What is attached to a network, or about to be: pods and interfaces.
    fn attached_to(&self, network: &str) -> Result<Vec<(String, String)>, Error> {
        let mut attached: Vec<(String, String)> = Vec::new();
        for id in self.journal.ids()? {
            let networks = self.journal.known(&id)?.map(|entry| entry.networks);
            let here = networks.into_iter().flatten().filter(|n| n.name == network);
            attached.extend(here.map(|network| (id.to_string(), network.if_name)));
        }
        // What another runtime attached to the same network is valid too.
        attached.extend(
            self.cached()?
                .into_iter()
                .filter(|cached| cached.network.name == network)
                .map(|cached| (cached.container_id, cached.if_name)),
        );
        attached.sort();
        attached.dedup();
        Ok(attached)
    }
}

/// Whether the plugins of a network were asked to collect.
enum Told {
    All,
    PutOff,
}

/// Attachments in the cache whose namespace is gone (a reboot) are garbage
/// whoever made them: other runtimes use the same directory, so all
/// others are left alone.
fn is_forsaken(cached: &CachedAttachment, is_valid: &dyn Fn(&ContainerId) -> bool) -> bool {
    let known = cached.container_id.parse().is_ok_and(|id| is_valid(&id));
    !known && !cached.netns.is_empty() && !Path::new(&cached.netns).exists()
}

fn names(entry: &JournalEntry) -> Vec<String> {
    let networks = entry.networks.iter();
    networks.map(|network| network.name.clone()).collect()
}
