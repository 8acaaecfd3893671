//! ADD and CHECK of a pod.

use std::io::ErrorKind;

use super::shared::Inner;
use crate::cni::{CniResult, NetworkConf, PluginConf, RuntimeArgs, Verb};
use crate::journal::JournalEntry;
use crate::plugins::{Chain, Progress, Target};
use crate::pod_network::pod_addresses;
use crate::{AttachedNetwork, Attachment, Error, PluginError, PluginFailure, PodNetwork};

impl Inner {
    pub(super) fn attach(&self, pod: Attachment) -> Result<PodNetwork, Error> {
        if let Some(result) = self.settle_earlier_attempt(&pod)? {
            return Ok(result);
        }
        if let Err(source) = std::fs::metadata(&pod.netns) {
            let action = if source.kind() == ErrorKind::NotFound {
                "find"
            } else {
                "open"
            };
            return Err(Error::Netns {
                action,
                path: pod.netns,
                source,
            });
        }
        let networks = self.networks_of(&self.conf_dir(&pod))?;
        let args = pod.runtime_args();
        let planned = networks
            .iter()
            .enumerate()
            .map(|(index, network)| AttachedNetwork {
                name: network.name.clone(),
                if_name: interface_name(&pod, index),
                conf: network.to_list(),
                args: args.clone(),
                result: None,
                ran: None,
            })
            .collect();
        warn_of_ignored_wishes(&pod, &networks, &args);
        self.host_ports.reserve(&pod)?;
        let entry = JournalEntry::new(pod, planned);
        let done = self
            .journal
            .begin(&entry)
            .and_then(|()| self.add_all(&networks, &entry))
            .and_then(|result| {
                self.journal
                    .finish(&entry.attachment.id, &result)
                    .map(|()| result)
            });
        self.note_outcome(&done);
        if done.is_err()
            && let Err(undo) = self.undo(&entry)
        {
            tracing::warn!(
                pod = %entry.attachment.id,
                error = %undo.with_causes(),
                "cannot undo a failed attachment; the daemon tries again"
            );
        }
        done
    }

    /// Undoes a failed attempt, using the journal's records of it.
    fn undo(&self, entry: &JournalEntry) -> Result<(), Error> {
        let noted = self.journal.get(&entry.attachment.id);
        self.detach_entry(noted.as_ref().unwrap_or(entry))
    }

    pub(super) fn check(&self, pod: &Attachment, record: &PodNetwork) -> Result<(), Error> {
        for attached in &record.networks {
            let network = super::detach::conf_of(attached)?;
            let config = self.config();
            let chain = Chain::new(&network, &config)?;
            let target = Target {
                container_id: pod.id.as_str(),
                if_name: &attached.if_name,
                netns: Some(&pod.netns),
                args: &attached.args,
            };
            if let Some(result) = &attached.result {
                chain.check(target, result)?;
            }
        }
        Ok(())
    }

    /// Returns the result of an earlier attempt if it is still valid; otherwise undoes the attempt.
    fn settle_earlier_attempt(&self, pod: &Attachment) -> Result<Option<PodNetwork>, Error> {
        let Some(earlier) = self.journal.get(&pod.id) else {
            return Ok(None);
        };
        let stands = earlier.result.is_some() && earlier.namespace_is_the_same();
        if stands && earlier.attachment == *pod {
            return Ok(earlier.result);
        }
        if stands {
            return Err(Error::Mismatch {
                id: pod.id.to_string(),
            });
        }
        self.detach_entry(&earlier)?;
        Ok(None)
    }

    fn add_all(&self, networks: &[NetworkConf], entry: &JournalEntry) -> Result<PodNetwork, Error> {
        let pod = &entry.attachment;
        let mut attached = entry.networks.clone();
        let mut results = Vec::new();
        for (index, (network, attached)) in networks.iter().zip(&mut attached).enumerate() {
            let config = self.config();
            let chain = Chain::new(network, &config)?;
            let target = Target {
                container_id: pod.id.as_str(),
                if_name: &attached.if_name,
                netns: Some(&pod.netns),
                args: &attached.args,
            };
            let note = |progress: Progress<'_>| match progress {
                Progress::First(result) => self.journal.note_partial(&pod.id, index, result),
                Progress::Ran(count) => self.journal.note_ran(&pod.id, index, count),
            };
            // The journal already has the intent: a later GC knows of the pod.
            let raw = self
                .gates
                .beside_others(&network.name, || chain.add(target, note))?;
            let unusable = |failure| PluginError {
                network: network.name.clone(),
                plugin: network
                    .plugins
                    .last()
                    .map(|last| last.kind.clone())
                    .unwrap_or_default(),
                verb: Verb::Add,
                failure,
            };
            let result = CniResult::parse(&raw, network.cni_version)
                .map_err(|error| Box::new(unusable(PluginFailure::from_result(&error, &raw))))?;
            if results.is_empty() && pod_addresses(&result).next().is_none() {
                return Err(Box::new(unusable(PluginFailure::NoAddress)).into());
            }
            let netns = pod.netns.to_string_lossy();
            let cached = self.cache.put(
                network,
                pod.id.as_str(),
                &attached.if_name,
                &netns,
                &attached.args,
                &raw,
            );
            if let Err(error) = cached {
                // The journal has the result, too; only other tools miss it.
                tracing::warn!(pod = %pod.id, %error, "cannot store the CNI result for other tools");
            }
            attached.result = Some(raw);
            results.push(result);
        }
        Ok(PodNetwork::gather(
            attached,
            &results,
            self.config().ip_preference,
        ))
    }
}

/// Logs requested settings that no plugin of a network supports. Like other runtimes, the daemon ignores them;
/// nothing else would report it.
fn warn_of_ignored_wishes(pod: &Attachment, networks: &[NetworkConf], args: &RuntimeArgs) {
    const WISHES: [&str; 6] = [
        "portMappings",
        "bandwidth",
        "ips",
        "mac",
        "aliases",
        "infinibandGUID",
    ];
    let plugins = networks.iter().flat_map(|network| &network.plugins);
    let handled: Vec<&str> = plugins.flat_map(PluginConf::capabilities).collect();
    for wish in WISHES {
        if args.capability_args.contains_key(wish) && !handled.contains(&wish) {
            tracing::warn!(
                pod = %pod.id, capability = wish,
                "no plugin of the network has this capability; the pod's request is ignored"
            );
        }
    }
}

/// Returns the interface name on a network. The first network uses the requested name; further ones count up from it.
fn interface_name(pod: &Attachment, index: usize) -> String {
    let first = pod.interface.as_str();
    if index == 0 {
        return first.to_owned();
    }
    let stem = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let number: usize = first[stem.len()..].parse().unwrap_or(0);
    format!("{stem}{}", number + index)
}
