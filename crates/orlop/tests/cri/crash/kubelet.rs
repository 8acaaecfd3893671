//! A client that brings pods up and takes them down again, and tries again as a kubelet does.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{
    Container, ContainerFilter, ContainerState, ListContainersRequest, ListPodSandboxRequest,
    PodSandbox, PodSandboxFilter, PodSandboxState,
};
use orlop_testkit::{ContainerSpec, Cri, PodSpec};
use tonic::Status;

use crate::world::World;

/// By which a kubelet finds the sandboxes of a pod.
const NAME: &str = "io.kubernetes.pod.name";

/// How long one pod's life may take with all that is tried again.
const CYCLE_LIMIT: Duration = Duration::from_mins(1);

/// How long it waits after something went wrong.
const PAUSE: Duration = Duration::from_millis(20);

/// What all lanes know of each other.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    finished: AtomicU32,
    troubles: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl Progress {
    /// How many pods have come and gone.
    pub(crate) fn finished(&self) -> u32 {
        self.finished.load(Ordering::SeqCst)
    }

    /// What did not work at once.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.troubles.lock().expect("no lane panicked").clone()
    }

    /// Whether no lane begins with another pod.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// No lane begins with another pod.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// One pod after the other, each with a name of its own.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) cri: Cri,
    /// What all pods have in common.
    pub(crate) pod: PodSpec,
    pub(crate) container: ContainerSpec,
    pub(crate) progress: Arc<Progress>,
}

impl Lane {
    /// Pods of this name with a network and one container.
    pub(crate) fn of(world: &World, name: String, progress: &Arc<Progress>) -> Self {
        Self {
            pod: world.node.pod(&name).own_network(),
            name,
            cri: world.cri.clone(),
            container: world.container("main").shell("sleep 600"),
            progress: Arc::clone(progress),
        }
    }

    /// Goes on until the end, and then once more, when nothing may fail any longer.
    pub(crate) async fn run(self) {
        let mut cycle = 0;
        while !self.progress.is_over() {
            let troubles = self.cycle(&format!("{}-{cycle}", self.name)).await;
            let mut all = self.progress.troubles.lock().expect("no lane panicked");
            all.extend(troubles);
            drop(all);
            self.progress.finished.fetch_add(1, Ordering::SeqCst);
            cycle += 1;
        }
        let name = format!("{}-last", self.name);
        self.bring_up(&name).await.expect("nothing dies any more");
        self.take_down(&name).await.expect("nothing dies any more");
    }

    /// A pod's life, however often it takes a step again; what did not work at once.
    pub(crate) async fn cycle(&self, name: &str) -> Vec<String> {
        let begun = Instant::now();
        let mut troubles: Vec<String> = Vec::new();
        let mut is_up = false;
        loop {
            let done = if is_up {
                self.take_down(name).await
            } else {
                self.bring_up(name).await
            };
            match done {
                Ok(()) if is_up => return troubles,
                Ok(()) => is_up = true,
                Err(status) => {
                    let trouble = format!("{name}, {:.1?}: {status}", begun.elapsed());
                    troubles.push(trouble);
                    assert!(
                        begun.elapsed() < CYCLE_LIMIT,
                        "the pod {name} is stuck on its way {}:\n{}",
                        if is_up { "down" } else { "up" },
                        troubles.join("\n")
                    );
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// An attempt at the pod of this name.
    pub(crate) fn attempt(&self, name: &str, attempt: u32) -> PodSpec {
        let pod = self.pod.clone().label(NAME, name).attempt(attempt);
        pod.with(|config| {
            let metadata = config.metadata.get_or_insert_default();
            name.clone_into(&mut metadata.name);
            metadata.uid = format!("{}-{name}", metadata.namespace);
        })
    }

    /// One pass of a kubelet over a pod that is to run: what is there and ready is kept, what is
    /// not is ended, and the next attempt begins.
    pub(crate) async fn bring_up(&self, name: &str) -> Result<(), Status> {
        let sandboxes = self.sandboxes(name).await?;
        let newest = sandboxes.iter().max_by_key(|sandbox| attempt_of(sandbox));
        let (pod_id, pod) = match newest {
            Some(ready) if ready.state() == PodSandboxState::SandboxReady => {
                (ready.id.clone(), self.attempt(name, attempt_of(ready)))
            }
            _ => {
                for sandbox in &sandboxes {
                    self.cri.stop_pod(&sandbox.id).await?;
                }
                let next = newest.map_or(0, |sandbox| attempt_of(sandbox) + 1);
                let pod = self.attempt(name, next);
                (self.cri.run_pod(&pod).await?, pod)
            }
        };
        let containers = self.containers(&pod_id).await?;
        let running =
            |container: &&Container| container.state() == ContainerState::ContainerRunning;
        let id = if let Some(container) = containers.iter().find(running) {
            container.id.clone()
        } else {
            let attempts = containers.iter().map(|container| {
                let metadata = container.metadata.as_ref();
                metadata.map_or(0, |metadata| metadata.attempt)
            });
            let attempt = attempts.max().map_or(0, |attempt| attempt + 1);
            let spec = self.container.clone().attempt(attempt);
            self.cri.run(&pod_id, &pod, &spec).await?
        };
        let answer = self.cri.exec(&id, &["echo", name]).await?;
        if answer.exit_code != 0 || answer.stdout != format!("{name}\n").as_bytes() {
            return Err(Status::internal(format!("the command says {answer:?}")));
        }
        Ok(())
    }

    /// The end of a pod that is to go: containers, sandboxes, and what is known of either.
    pub(crate) async fn take_down(&self, name: &str) -> Result<(), Status> {
        for sandbox in self.sandboxes(name).await? {
            for container in self.containers(&sandbox.id).await? {
                self.cri.stop(&container.id, 0).await?;
                self.cri.remove(&container.id).await?;
            }
            self.cri.stop_pod(&sandbox.id).await?;
            self.cri.remove_pod(&sandbox.id).await?;
        }
        match self.sandboxes(name).await?.len() {
            0 => Ok(()),
            left => Err(Status::internal(format!("{left} removed pods are listed"))),
        }
    }

    async fn sandboxes(&self, name: &str) -> Result<Vec<PodSandbox>, Status> {
        let filter = PodSandboxFilter {
            label_selector: [(NAME.to_owned(), name.to_owned())].into(),
            ..PodSandboxFilter::default()
        };
        let request = ListPodSandboxRequest {
            filter: Some(filter),
        };
        let answer = self.cri.runtime().list_pod_sandbox(request).await?;
        Ok(answer.into_inner().items)
    }

    async fn containers(&self, pod_id: &str) -> Result<Vec<Container>, Status> {
        let filter = ContainerFilter {
            pod_sandbox_id: pod_id.to_owned(),
            ..ContainerFilter::default()
        };
        let request = ListContainersRequest {
            filter: Some(filter),
        };
        let answer = self.cri.runtime().list_containers(request).await?;
        Ok(answer.into_inner().containers)
    }
}

fn attempt_of(sandbox: &PodSandbox) -> u32 {
    let metadata = sandbox.metadata.as_ref();
    metadata.map_or(0, |metadata| metadata.attempt)
}
