//! Releasing what belongs to nobody.

use std::net::IpAddr;
use std::path::Path;

use super::Inner;
use crate::ContainerId;
use crate::cni::{CachedAttachment, Chain, Target};
use crate::error::with_causes;
use crate::journal::JournalEntry;

/// What a garbage collection did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Pods detached because nobody knows them any more.
    pub released: Vec<String>,
    /// Pods (or networks) for which that failed, and why; the next run retries.
    pub failed: Vec<(String, String)>,
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
    pub(super) fn orphans(&self, is_valid: &dyn Fn(&ContainerId) -> bool) -> Vec<Orphan> {
        let mut orphans: Vec<Orphan> = Vec::new();
        for id in self.journal.ids() {
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
        for cached in self.forsaken(is_valid) {
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
        orphans
    }

    /// Attachments in the cache whose namespace is gone (a reboot) are garbage
    /// whoever made them: other runtimes use the same directory, so all
    /// others are left alone.
    fn forsaken(&self, is_valid: &dyn Fn(&ContainerId) -> bool) -> Vec<CachedAttachment> {
        let mut cached = self.cache.list();
        cached.retain(|cached| {
            let known = cached.container_id.parse().is_ok_and(|id| is_valid(&id));
            !known && !cached.netns.is_empty() && !Path::new(&cached.netns).exists()
        });
        cached
    }

    pub(super) fn gc(&self, is_valid: &dyn Fn(&ContainerId) -> bool) -> GcReport {
        let mut report = GcReport::default();
        self.release_journalled(is_valid, &mut report);
        self.release_cached(is_valid, &mut report);
        self.tell_plugins(&mut report);
        report
    }

    fn release_journalled(&self, is_valid: &dyn Fn(&ContainerId) -> bool, report: &mut GcReport) {
        for id in self.journal.ids() {
            if is_valid(&id) {
                continue;
            }
            let done = match self.journal.get(&id) {
                Some(entry) => self.detach_entry(&entry),
                // Torn by a power loss: there is nothing to go by but the cache.
                None => self
                    .detach(&crate::Attachment::new(id.clone(), ""), None)
                    .and_then(|()| self.journal.forget(&id, self.config.max_networks.max(1))),
            };
            match done {
                Ok(()) => report.released.push(id.to_string()),
                Err(error) => report.failed.push((id.to_string(), error.with_causes())),
            }
        }
    }

    fn release_cached(&self, is_valid: &dyn Fn(&ContainerId) -> bool, report: &mut GcReport) {
        for cached in self.forsaken(is_valid) {
            let id = cached.container_id.as_str();
            let target = Target {
                container_id: id,
                if_name: &cached.if_name,
                netns: None,
                args: &cached.args,
            };
            let done = Chain::new(&cached.network, &self.config)
                .and_then(|chain| chain.del(target, Some(&cached.result)));
            match done {
                Ok(()) => {
                    let _ = self.cache.remove(&cached.network.name, id, &cached.if_name);
                    report.released.push(id.to_owned());
                }
                Err(error) => report.failed.push((id.to_owned(), with_causes(&*error))),
            }
        }
    }

    fn tell_plugins(&self, report: &mut GcReport) {
        let Ok(networks) = self.networks_of(&self.config.conf_dir) else {
            return;
        };
        for network in &networks {
            let mut valid: Vec<(String, String)> = self
                .journal
                .ids()
                .iter()
                .filter_map(|id| self.journal.get(id))
                .flat_map(|entry| {
                    let id = entry.attachment.id.to_string();
                    entry
                        .networks
                        .into_iter()
                        .map(move |n| (id.clone(), n.name, n.if_name))
                })
                .filter(|(_, name, _)| *name == network.name)
                .map(|(id, _, if_name)| (id, if_name))
                .collect();
            // What another runtime attached to the same network is valid too.
            valid.extend(
                self.cache
                    .list()
                    .into_iter()
                    .filter(|cached| cached.network.name == network.name)
                    .map(|cached| (cached.container_id, cached.if_name)),
            );
            valid.sort();
            valid.dedup();
            let done = Chain::new(network, &self.config).and_then(|chain| chain.gc(&valid));
            if let Err(error) = done {
                report
                    .failed
                    .push((network.name.clone(), with_causes(&*error)));
            }
        }
    }
}

fn names(entry: &JournalEntry) -> Vec<String> {
    let networks = entry.networks.iter();
    networks.map(|network| network.name.clone()).collect()
}
