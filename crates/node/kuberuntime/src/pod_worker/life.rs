//! The state of a pod's worker: the wanted pod, what was observed and created, and what is
//! reported.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::client::ClientError;
use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::actions::ActuatedResources;
use orlop_kubelet_rules::pod::{Container, Pod};
use orlop_kubelet_rules::status::ContainerState;
use orlop_kubelet_rules::userns::IdRange;
use serde_json::Value;
use tokio::time::Instant;

use super::checkpoint::{Checkpoint, Ended};
use super::conditions::Conditions;
use super::container_state::Waiting;
use super::forgotten::Former;
use super::probes::Probes;
use crate::clock::now;
use crate::context::Context;
use crate::mailbox::{self, Mailbox};
use crate::pod_input::PodInput;
use crate::pod_status::{Observation, observe};
use crate::pod_view::Stage;
use crate::volumes::{Places, PodDirs};

/// The first delay after a failure that no container caused.
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(500);
pub(super) const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// The state of a worker from the start of a pod to its end.
pub(super) struct Life {
    pub(super) ctx: Arc<Context>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) dirs: PodDirs,
    pub(super) wished: Wished,
    pub(super) seen: Seen,
    pub(super) made: Made,
    pub(super) told: Told,
    pub(super) start_time: Timestamp,
    pub(super) stage: Stage,
    /// The result, if the pod was ended.
    pub(super) ended: Option<Ended>,
    pub(super) checkpoint: Checkpoint,
    pub(super) failures: u32,
}

/// The wanted state of the pod.
pub(super) struct Wished {
    pub(super) input: Arc<PodInput>,
    /// The pod with the additions of its RuntimeClass.
    pub(super) pod: Arc<Pod>,
    /// Its manifest with the same additions.
    pub(super) manifest: Arc<Value>,
    pub(super) generation: u64,
}

/// What the last observation found.
pub(super) struct Seen {
    pub(super) observation: Arc<Observation>,
    /// Termination messages by container id.
    pub(super) words: BTreeMap<String, String>,
    /// When the pod's disk usage was last measured.
    pub(super) measured: std::time::Instant,
}

/// Resources that were created for the pod.
#[derive(Default)]
pub(super) struct Made {
    /// Where the volumes are, and the generation they were created for.
    pub(super) places: Option<(u64, Arc<Places>)>,
    /// The generation that the cgroup was created for.
    pub(super) cgroup: u64,
    /// The pod's id range, if it has its own user namespace.
    pub(super) id_range: Option<IdRange>,
    /// The resources that containers were given.
    pub(super) actuated: ActuatedResources,
    pub(super) probes: Probes,
    /// Whether the pod has run, or may have before this process started.
    pub(super) has_run: bool,
}

/// What is reported about the pod.
#[derive(Default)]
pub(super) struct Told {
    /// Why containers are waiting, by name.
    pub(super) waiting: BTreeMap<String, Waiting>,
    /// What blocks the pod as a whole.
    pub(super) trouble: Option<String>,
    pub(super) conditions: Conditions,
    /// The last status of each container, by name.
    pub(super) shown: BTreeMap<String, Former>,
    /// The last message and its time, by container and reason.
    pub(super) said: BTreeMap<(String, &'static str), (String, Instant)>,
}

impl Wished {
    pub(super) fn new(input: Arc<PodInput>, generation: u64) -> Self {
        Self {
            pod: input.with_class(),
            manifest: input.manifest_with_class(),
            input,
            generation,
        }
    }

    /// Finds a container of any kind.
    pub(super) fn container(&self, name: &str) -> Option<&Container> {
        let spec = &self.pod.spec;
        let ephemeral = spec.ephemeral_containers.iter().map(|c| &c.container);
        spec.init_and_regular()
            .chain(ephemeral)
            .find(|c| c.name == name)
    }
}

impl Life {
    pub(super) async fn new(ctx: &Arc<Context>, mailbox: &Arc<Mailbox>) -> Self {
        let (input, generation) = mailbox.input();
        let root = ctx.options.root_dir.clone();
        let uid = mailbox.uid.clone();
        let known = orlop_pool::blocking(move || Checkpoint::read(&root, &uid)).await;
        let known = known.ok().flatten();
        let start_time = known.as_ref().map_or_else(now, |c| Timestamp(c.start_time));
        let mut checkpoint = Checkpoint::new(&input, start_time);
        if let Some(known) = &known {
            checkpoint.actuated.clone_from(&known.actuated);
            checkpoint.ended.clone_from(&known.ended);
        }
        Self {
            dirs: PodDirs::new(&ctx.options.root_dir, &mailbox.uid),
            wished: Wished::new(input, generation),
            seen: Seen {
                observation: Arc::default(),
                words: BTreeMap::new(),
                measured: std::time::Instant::now(),
            },
            made: Made {
                actuated: known.as_ref().map(Checkpoint::actuated).unwrap_or_default(),
                has_run: known.is_some(),
                ..Made::default()
            },
            told: Told::default(),
            start_time,
            stage: Stage::Syncing,
            ended: known.and_then(|c| c.ended),
            checkpoint,
            failures: 0,
            ctx: ctx.clone(),
            mailbox: mailbox.clone(),
        }
    }

    /// Returns when `activeDeadlineSeconds` expires.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.wished.pod.spec.active_deadline_seconds?;
        Some(self.start_time.after(Duration::from_secs(seconds)))
    }

    pub(super) fn pod_ip(&self) -> Option<std::net::IpAddr> {
        if self.wished.pod.spec.host_network {
            return self.ctx.options.node.addresses.first().copied();
        }
        self.seen.observation.status.pod_ips().first().copied()
    }

    /// Requests the pod's state from the runtime.
    pub(super) async fn observe(&mut self) -> Result<(), ClientError> {
        self.mailbox.take_dirty();
        let begun = std::time::Instant::now();
        let observed = observe(&self.ctx.runtime, &self.mailbox.uid).await;
        self.ctx.metrics.looked_at_pod(begun.elapsed());
        let fresh = match observed {
            Ok(fresh) => fresh,
            Err(error) => {
                self.mailbox.touch();
                return Err(error);
            }
        };
        if *self.seen.observation != fresh {
            self.seen.observation = Arc::new(fresh);
        }
        self.mailbox.keep_results(&self.seen.observation);
        let there = &self.seen.observation.containers;
        self.seen.words.retain(|id, _| there.contains_key(id));
        self.show();
        Ok(())
    }

    /// Publishes the observation to probes and API requests.
    pub(super) fn show(&self) {
        self.mailbox.show(mailbox::Seen {
            observation: self.seen.observation.clone(),
            finished: self.stage == Stage::Terminated,
            deleted: self.stage != Stage::Syncing || self.wished.pod.is_being_deleted(),
        });
    }

    /// Reads the termination message of each exited container once.
    pub(super) async fn read_last_words(&mut self) {
        let fresh: Vec<_> = self
            .seen
            .observation
            .status
            .containers()
            .iter()
            .filter(|c| c.state == ContainerState::Exited && !self.seen.words.contains_key(&c.id))
            .filter_map(|c| self.seen.observation.containers.get(&c.id).cloned())
            .collect();
        let said = super::termination_message::of_all(&self.mailbox.uid, fresh).await;
        self.seen.words.extend(said);
    }

    /// Records the resources that a container was given.
    pub(super) async fn note_actuated(&mut self, name: &str) {
        let Some(container) = self.wished.container(name) else {
            return;
        };
        let resources = container.resources.clone();
        if self.made.actuated.get(name) == Some(&resources) {
            return;
        }
        self.made.actuated.insert(name.to_owned(), resources);
        let given = given_resources(&self.wished.input.manifest, name);
        self.checkpoint.actuated.insert(name.to_owned(), given);
        self.save().await;
    }

    pub(super) async fn save(&self) {
        let checkpoint = self.checkpoint.clone();
        let root = self.ctx.options.root_dir.clone();
        let uid = self.mailbox.uid.clone();
        let write = orlop_pool::blocking(move || checkpoint.write(&root, &uid));
        if let Ok(Err(error)) = write.await {
            tracing::error!(pod = self.wished.input.full_name(), %error, "cannot write a checkpoint");
        }
    }
}

/// Returns a container's resources as in the manifest.
fn given_resources(manifest: &serde_json::Value, name: &str) -> serde_json::Value {
    let spec = &manifest["spec"];
    ["containers", "initContainers"]
        .iter()
        .filter_map(|list| spec[list].as_array())
        .flatten()
        .find(|container| container["name"] == name)
        .map(|container| container["resources"].clone())
        .filter(|resources| !resources.is_null())
        .unwrap_or_else(|| serde_json::json!({}))
}
