//! The calls that need no stranger.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{
    ListContainerStatsRequest, ListImagesRequest, ListPodSandboxStatsRequest, StatusRequest,
};
use orlop_testkit::{ContainerSpec, Cri, ImageBuilder, Layer, Node, Registry};

/// How long calls of one kind took.
#[derive(Debug, Default)]
pub(crate) struct Times(pub(crate) Vec<Duration>);

/// A container to run commands in, and images to pull.
pub(crate) struct Calls {
    cri: Cri,
    container: String,
    images: Mutex<VecDeque<String>>,
    rounds: usize,
}

impl Calls {
    pub(crate) async fn prepare(
        node: &Node,
        registry: &Registry,
        image: &str,
        rounds: usize,
    ) -> Self {
        let cri = node.cri().await;
        cri.pull(image).await.expect("pull the image");
        let pod = node.pod("healthy");
        let pod_id = cri.run_pod(&pod).await.expect("run a pod");
        let spec = ContainerSpec::new("main", image).command(&["sleep", "86400"]);
        let container = cri.run(&pod_id, &pod, &spec).await;
        let mut images = VecDeque::new();
        // The first of each time is not measured.
        for n in 0..(rounds + 1) * 2 {
            let layer = Layer::new().file("n", n.to_string(), 0o644);
            let built = ImageBuilder::new().layer(layer).build();
            images.push_back(registry.push(&built, &format!("small:{n}")).await);
        }
        Self {
            cri,
            container: container.expect("run a container"),
            images: Mutex::new(images),
            rounds,
        }
    }

    /// Makes all calls again and again, one after the other.
    pub(crate) async fn measure(&self, node: &Node, when: &str) -> BTreeMap<&'static str, Times> {
        let mut all: BTreeMap<_, Times> = BTreeMap::new();
        for round in 0..=self.rounds {
            let mut took = |name, begin: Instant| {
                if round > 0 {
                    all.entry(name).or_default().0.push(begin.elapsed());
                }
            };
            let begin = Instant::now();
            let done = self.cri.exec(&self.container, &["true"]).await;
            assert_eq!(done.expect("a command").exit_code, 0);
            took("ExecSync", begin);

            let pod = node.pod(&format!("{when}-{round}"));
            let begin = Instant::now();
            let id = self.cri.run_pod(&pod).await.expect("a pod");
            took("RunPodSandbox", begin);
            self.cri.stop_pod(&id).await.expect("stop");
            self.cri.remove_pod(&id).await.expect("remove");

            let image = self.images.lock().unwrap().pop_front();
            let image = image.expect("enough images");
            let begin = Instant::now();
            self.cri.pull(&image).await.expect("pull");
            took("PullImage", begin);

            let begin = Instant::now();
            self.cri.pods().await.expect("the pods");
            took("ListPodSandbox", begin);
            let begin = Instant::now();
            self.cri.containers().await.expect("the containers");
            took("ListContainers", begin);
            let (mut runtime, mut images) = (self.cri.runtime.clone(), self.cri.images.clone());
            let begin = Instant::now();
            let request = ListImagesRequest::default();
            images.list_images(request).await.expect("the images");
            took("ListImages", begin);
            let begin = Instant::now();
            let request = ListContainerStatsRequest::default();
            let stats = runtime.list_container_stats(request).await;
            stats.expect("the statistics of containers");
            took("ListContainerStats", begin);
            let begin = Instant::now();
            let request = ListPodSandboxStatsRequest::default();
            let stats = runtime.list_pod_sandbox_stats(request).await;
            stats.expect("the statistics of pods");
            took("ListPodSandboxStats", begin);
            let begin = Instant::now();
            let status = runtime.status(StatusRequest::default()).await;
            status.expect("the status");
            took("Status", begin);
        }
        all
    }
}
