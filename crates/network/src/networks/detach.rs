//! DEL of a pod.

use super::shared::Inner;
use crate::cni::NetworkConf;
use crate::journal::JournalEntry;
use crate::plugins::{Chain, Target};
use crate::{AttachedNetwork, Attachment, Error, PodNetwork};

impl Inner {
    pub(super) fn detach(
        &self,
        pod: &Attachment,
        record: Option<&PodNetwork>,
    ) -> Result<(), Error> {
        let entry = self.journal.get(&pod.id);
        let networks = match (record, &entry) {
            (Some(record), _) => record.networks.clone(),
            (None, Some(entry)) => networks_of_entry(entry),
            (None, None) => self.networks_by_cache(pod)?,
        };
        // The path may lead to another pod's namespace by now.
        let is_its_own = match &entry {
            Some(entry) => entry.namespace_is_the_same(),
            None => pod.netns.exists(),
        };
        self.delete(pod, &networks, is_its_own)
    }

    pub(super) fn detach_noted(&self, pod: &Attachment) -> Result<(), Error> {
        if let Some(entry) = self.journal.get(&pod.id) {
            return self.detach_entry(&entry);
        }
        self.delete(pod, &self.cached_of(pod)?, pod.netns.exists())
    }

    /// Undoes a complete or partial attachment according to its journal entry.
    pub(super) fn detach_entry(&self, entry: &JournalEntry) -> Result<(), Error> {
        self.delete(
            &entry.attachment,
            &networks_of_entry(entry),
            entry.namespace_is_the_same(),
        )
    }

    /// Runs DEL on every network, and removes the pod's journal entry once all succeed. Returns the first failure,
    /// after which the whole call must be repeated.
    fn delete(
        &self,
        pod: &Attachment,
        networks: &[AttachedNetwork],
        namespace_is_there: bool,
    ) -> Result<(), Error> {
        let netns = namespace_is_there.then_some(pod.netns.as_path());
        let mut first = Ok(());
        for attached in networks.iter().rev() {
            let done = conf_of(attached).and_then(|mut network| {
                // Plugins that did not run have nothing to undo, and may never be able to run.
                network.plugins.truncate(attached.ran.unwrap_or(usize::MAX));
                let config = self.config();
                let chain = Chain::new(&network, &config)?;
                let target = Target {
                    container_id: pod.id.as_str(),
                    if_name: &attached.if_name,
                    netns,
                    args: &attached.args,
                };
                self.gates.beside_others(&network.name, || {
                    chain.del(target, attached.result.as_ref())
                })?;
                self.cache
                    .remove(&network.name, pod.id.as_str(), &attached.if_name)
                    .map_err(|source| Error::Io {
                        action: "remove",
                        path: self.config().cache_dir.clone(),
                        source,
                    })
            });
            if first.is_ok() {
                first = done;
            }
        }
        first?;
        self.journal.forget(&pod.id, networks.len())?;
        self.host_ports.release(&pod.id);
        Ok(())
    }

    /// Returns a pod's attachments from the cache that is shared with other tools.
    fn cached_of(&self, pod: &Attachment) -> Result<Vec<AttachedNetwork>, Error> {
        let mut cached = self.cached()?;
        cached.retain(|cached| cached.container_id == pod.id.as_str());
        let networks = cached.into_iter();
        Ok(networks
            .map(|cached| AttachedNetwork {
                name: cached.network.name.clone(),
                if_name: cached.if_name,
                conf: cached.network.to_list(),
                args: cached.args,
                result: Some(cached.result),
                ran: None,
            })
            .collect())
    }

    /// Returns a pod's networks without a journal entry: from the cache, or else the node's current networks.
    fn networks_by_cache(&self, pod: &Attachment) -> Result<Vec<AttachedNetwork>, Error> {
        let cached = self.cached_of(pod)?;
        if !cached.is_empty() {
            return Ok(cached);
        }
        let networks = self.networks_of(&self.conf_dir(pod)).unwrap_or_default();
        let networks = networks.iter();
        Ok(networks
            .map(|network| AttachedNetwork {
                name: network.name.clone(),
                if_name: pod.interface.to_string(),
                conf: network.to_list(),
                args: pod.runtime_args(),
                result: None,
                ran: None,
            })
            .collect())
    }
}

/// Returns the network's configuration at the time of the attachment.
pub(super) fn conf_of(attached: &AttachedNetwork) -> Result<NetworkConf, Error> {
    NetworkConf::from_list(attached.conf.clone()).map_err(|error| {
        Error::Invalid(format!(
            "the record of network {:?} is damaged: {}",
            attached.name,
            orlop_text::with_causes(&error)
        ))
    })
}

fn networks_of_entry(entry: &JournalEntry) -> Vec<AttachedNetwork> {
    match &entry.result {
        Some(result) => result.networks.clone(),
        None => entry.networks.clone(),
    }
}
