//! A pod's life, step by step.

use std::sync::Arc;
use std::time::Duration;

use orlop_testkit::{ContainerSpec, ImageBuilder, Layer};
use tonic::Status;

use super::{Lane, Progress};
use crate::world::World;

/// How long it waits after something went wrong, twice as long after each time.
const PAUSE: Duration = Duration::from_millis(50);

/// Of the layer of many files.
const FILES: usize = 30;

/// Says what the mark is, and how many of the many files there are, all of which are as they
/// should be.
const CHECK: &str = "cat /mark && cd /many && sha256sum -cs sums && ls | grep -c file";

/// One call of a kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    PullImage,
    RunPodSandbox,
    CreateContainer,
    StartContainer,
    ExecSync,
    StopContainer,
    RemoveContainer,
    StopPodSandbox,
    RemovePodSandbox,
    RemoveImage,
}

impl Step {
    /// In the order in which they are made.
    pub(super) const ALL: [Self; 10] = [
        Self::PullImage,
        Self::RunPodSandbox,
        Self::CreateContainer,
        Self::StartContainer,
        Self::ExecSync,
        Self::StopContainer,
        Self::RemoveContainer,
        Self::StopPodSandbox,
        Self::RemovePodSandbox,
        Self::RemoveImage,
    ];
}

/// Whose network a pod lives in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Network {
    Own,
    Host,
}

/// A pod with an image of its own.
pub(super) struct Life {
    name: String,
    image: String,
    lane: Lane,
    pod_id: String,
    container_id: String,
}

impl Life {
    /// Puts the image into the registry; the node knows nothing yet.
    pub(super) async fn new(world: &World, name: String, network: Network) -> Self {
        let image = ImageBuilder::busybox()
            .layer(Layer::new().file("mark", &name, 0o644))
            .layer(many_files(&name))
            .build();
        let image = world.registry.push(&image, &format!("{name}:1")).await;
        let pod = world.node.pod(&name);
        let pod = match network {
            Network::Own => pod.own_network(),
            Network::Host => pod,
        };
        let container = ContainerSpec::new("main", &image).shell("sleep 600");
        let lane = Lane {
            name: name.clone(),
            cri: world.cri.clone(),
            pod,
            container,
            progress: Arc::new(Progress::default()),
        };
        Self {
            name,
            image,
            lane,
            pod_id: String::new(),
            container_id: String::new(),
        }
    }

    /// Goes on with another run of the daemon.
    pub(super) fn meet(&mut self, world: &World) {
        self.lane.cri = world.cri.clone();
    }

    /// Whether the image is there.
    pub(super) async fn is_known(&self) -> Result<bool, Status> {
        Ok(self.lane.cri.image(&self.image).await?.is_some())
    }

    /// Looks at all files of the image, which is not pulled.
    pub(super) async fn is_whole(&self) -> Result<(), Status> {
        let name = format!("{}-whole", self.name);
        let pod = self.lane.attempt(&name, 0);
        let cri = &self.lane.cri;
        let pod_id = cri.run_pod(&pod).await?;
        let id = cri.run(&pod_id, &pod, &self.lane.container).await?;
        let answer = cri.exec(&id, &["sh", "-c", CHECK]).await?;
        cri.stop_pod(&pod_id).await?;
        cri.remove_pod(&pod_id).await?;
        let said = String::from_utf8_lossy(&answer.stdout);
        if answer.exit_code == 0 && said == format!("{}{FILES}\n", self.name) {
            Ok(())
        } else {
            Err(Status::data_loss(format!(
                "its files are damaged: {answer:?}"
            )))
        }
    }

    /// Does one step, those before it done.
    pub(super) async fn step(&mut self, step: Step) -> Result<(), Status> {
        let cri = &self.lane.cri;
        let pod = self.lane.attempt(&self.name, 0);
        match step {
            Step::PullImage => cri.pull(&self.image).await.map(drop),
            Step::RunPodSandbox => {
                self.pod_id = cri.run_pod(&pod).await?;
                Ok(())
            }
            Step::CreateContainer => {
                self.container_id = cri.create(&self.pod_id, &pod, &self.lane.container).await?;
                Ok(())
            }
            Step::StartContainer => cri.start(&self.container_id).await,
            Step::ExecSync => {
                let answer = cri.exec(&self.container_id, &["cat", "/mark"]).await?;
                if answer.stdout == self.name.as_bytes() && answer.exit_code == 0 {
                    Ok(())
                } else {
                    Err(Status::internal(format!("the command says {answer:?}")))
                }
            }
            Step::StopContainer => cri.stop(&self.container_id, 0).await,
            Step::RemoveContainer => cri.remove(&self.container_id).await,
            Step::StopPodSandbox => cri.stop_pod(&self.pod_id).await,
            Step::RemovePodSandbox => cri.remove_pod(&self.pod_id).await,
            Step::RemoveImage => cri.remove_image(&self.image).await,
        }
    }

    /// Does what a kubelet would do that knows nothing: pulls, brings the pod up, takes it down,
    /// and lets the image go. Returns what did not work at once.
    pub(super) async fn go_on(&self) -> Result<Vec<String>, String> {
        let mut troubles = Vec::new();
        for tried in 0..6 {
            match self.pass().await {
                Ok(()) => return Ok(troubles),
                Err(trouble) => troubles.push(trouble),
            }
            tokio::time::sleep(PAUSE * 2_u32.pow(tried)).await;
        }
        Err(format!("{} is stuck: {troubles:#?}", self.name))
    }

    async fn pass(&self) -> Result<(), String> {
        let told = |what: &'static str| move |status: Status| format!("{what}: {status}");
        let cri = &self.lane.cri;
        cri.pull(&self.image).await.map_err(told("pull"))?;
        self.lane.bring_up(&self.name).await.map_err(told("up"))?;
        self.lane
            .take_down(&self.name)
            .await
            .map_err(told("down"))?;
        cri.remove_image(&self.image).await.map_err(told("remove"))
    }
}

/// Files that only this image has, and a list of what is in them.
fn many_files(name: &str) -> Layer {
    let mut layer = Layer::new().dir("many", 0o755);
    let mut sums = Vec::new();
    for nth in 0..FILES {
        let content = format!("{name} {nth}\n").repeat(nth * 40);
        let sum = orlop_testkit::image::digest(content.as_bytes());
        let sum = sum.trim_start_matches("sha256:");
        sums.push(format!("{sum}  file{nth}\n"));
        layer = layer.file(&format!("many/file{nth}"), content, 0o644);
    }
    layer.file("many/sums", sums.concat(), 0o644)
}
