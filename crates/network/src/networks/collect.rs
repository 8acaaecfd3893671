//! Garbage collection of attachments without a pod.

use std::net::IpAddr;
use std::path::Path;

use super::shared::Inner;
use crate::cni::{CachedAttachment, NetworkConf};
use crate::journal::JournalEntry;
use crate::plugins::{Chain, Target};
use crate::{ContainerId, Error};

/// The result of a garbage collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Detached pods that no longer exist.
    pub released: Vec<String>,
    /// Pods (or networks) whose release failed, with the reason; the next run retries.
    pub failed: Vec<(String, String)>,
    /// Networks whose plugins did not run GC, because pods were being attached and detached all the time; the next
    /// run retries.
    pub put_off: Vec<String>,
}

/// An attachment that a garbage collection would release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orphan {
    /// The ID of the pod that had it.
    pub id: String,
    /// The networks of the attachment, as far as known.
    pub networks: Vec<String>,
    /// Its addresses, as far as known.
    pub ips: Vec<IpAddr>,
}

impl Inner {
    /// Lists the attachments that [`Self::gc`] would release. Garbage that only plugins find is not included: their
    /// GC has no dry run.
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

    /// Reads the cache that is shared with other tools.
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
            // Another operation may have worked on the pod until now.
            if is_valid(&id) {
                continue;
            }
            let done = match self.journal.known(&id) {
                Ok(None) => continue,
                Ok(Some(entry)) => self.detach_entry(&entry),
                // Torn by a power loss: only the cache has information.
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

    /// Runs GC of all plugins even if one fails; reports the first failure of a network.
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
            // One lock per plugin: a waiting pod waits for one plugin, not for all of them.
            let Some(_alone) = self.gates.alone(&network.name) else {
                return first.and(Ok(Told::PutOff));
            };
            // New pods wait until this plugin is done. The plugin releases everything that is missing in the list,
            // even if it is in use; without a complete list it is not called.
            let done = chain.gc(plugin, &self.attached_to(&network.name)?);
            if let (Err(error), true) = (done, first.is_ok()) {
                first = Err(error.into());
            }
        }
        first
    }

    /// Lists the attachments of a network, including planned ones: pods and interfaces.
    fn attached_to(&self, network: &str) -> Result<Vec<(String, String)>, Error> {
        let mut attached: Vec<(String, String)> = Vec::new();
        for id in self.journal.ids()? {
            let networks = self.journal.known(&id)?.map(|entry| entry.networks);
            let here = networks.into_iter().flatten().filter(|n| n.name == network);
            attached.extend(here.map(|network| (id.to_string(), network.if_name)));
        }
        // Attachments of another runtime to the same network are valid, too.
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

/// Whether the plugins of a network ran GC.
enum Told {
    All,
    PutOff,
}

/// Reports whether a cached attachment is garbage because its namespace is gone (after a reboot). Other runtimes use
/// the same directory, so all other attachments stay.
fn is_forsaken(cached: &CachedAttachment, is_valid: &dyn Fn(&ContainerId) -> bool) -> bool {
    let known = cached.container_id.parse().is_ok_and(|id| is_valid(&id));
    !known && !cached.netns.is_empty() && !Path::new(&cached.netns).exists()
}

fn names(entry: &JournalEntry) -> Vec<String> {
    let networks = entry.networks.iter();
    networks.map(|network| network.name.clone()).collect()
}
