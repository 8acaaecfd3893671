//! Those that let the node wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_testkit::nri::stub::{Answer, Stub};
use orlop_testkit::nri::{BoxFuture, Status};
use orlop_testkit::{
    ContainerSpec, Cri, Fault, FaultProxy, HangingNetwork, ImageBuilder, Layer, Node, Registry,
    Rule, SilentMount,
};
use tokio::task::JoinHandle;

const PODS: usize = 70;
/// Of one network, so many are attached at a time; the others wait for these.
const AT_A_TIME: usize = 48;
const REGISTRIES: usize = 8;
const CREATES: usize = 8;

/// All of them at once.
pub(crate) struct Strangers<'n> {
    network: &'n HangingNetwork,
    pods: Vec<JoinHandle<()>>,
    pulls: Vec<JoinHandle<()>>,
    registries: Vec<FaultProxy>,
    creates: JoinHandle<()>,
    plugin: JoinHandle<()>,
    mount: SilentMount,
}

impl<'n> Strangers<'n> {
    /// Returns when all of them let the node wait.
    pub(crate) async fn come(
        node: &Node,
        network: &'n HangingNetwork,
        registry: &Registry,
        image: &str,
    ) -> Self {
        let cri = node.cri().await;
        let pods = (0..PODS)
            .map(|n| {
                let (cri, pod) = (cri.clone(), node.pod(&format!("hangs-{n}")).own_network());
                tokio::spawn(async move {
                    // It comes up in the end; nobody asks when.
                    let _ = cri.run_pod(&pod).await;
                })
            })
            .collect();
        let end = Instant::now() + Duration::from_mins(1);
        while network.asked() < AT_A_TIME {
            assert!(Instant::now() < end, "only {} pods hang", network.asked());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for n in 0..REGISTRIES {
            // One that the node does not have yet, nor any layer of it.
            let layer = Layer::new().noise("noise", 1 << 20);
            let built = ImageBuilder::new().layer(layer).build();
            registry.push(&built, &format!("slow-{n}:1")).await;
        }
        let registries = slow_registries(registry);
        let pulls = registries
            .iter()
            .enumerate()
            .map(|(n, slow)| {
                let (cri, reference) = (cri.clone(), slow.reference(&format!("slow-{n}:1")));
                tokio::spawn(async move {
                    let _ = cri.pull(&reference).await;
                })
            })
            .collect();
        while registries.iter().any(|slow| slow.seen().is_empty()) {
            assert!(Instant::now() < end, "a registry was not asked");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let point = node.scratch().subdir("gone");
        let mount = SilentMount::on(&point).expect("FUSE");
        let spec = ContainerSpec::new("main", image).mount(&point, "/data");
        let mut victims = Vec::new();
        for n in 0..CREATES {
            let pod = node.pod(&format!("gone-{n}"));
            victims.push((cri.run_pod(&pod).await.expect("a pod"), pod));
        }
        let creates = victims.into_iter().map(move |(id, pod)| {
            let (cri, spec) = (cri.clone(), spec.clone());
            create_again_and_again(cri, id, pod, spec)
        });
        let creates = tokio::spawn(async move {
            let all: Vec<_> = creates.map(tokio::spawn).collect();
            for one in all {
                let _ = one.await;
            }
        });
        let plugin = tokio::spawn(mute_plugin(node.plugin_socket()));
        Self {
            network,
            pods,
            pulls,
            registries,
            creates,
            plugin,
            mount,
        }
    }

    pub(crate) fn assert_still_there(&self) {
        let waiting = |tasks: &[JoinHandle<()>]| tasks.iter().all(|task| !task.is_finished());
        assert!(waiting(&self.pods), "a plugin did not hang");
        assert!(waiting(&self.pulls), "a registry was not slow");
        assert!(!self.creates.is_finished(), "the volume was there");
        assert!(!self.plugin.is_finished(), "the plugin of NRI has gone");
    }

    /// Ends all of it.
    pub(crate) async fn leave(self) {
        self.plugin.abort();
        self.network.release();
        drop(self.registries);
        drop(self.mount);
        let all = self.pods.into_iter().chain(self.pulls);
        for one in all.chain([self.creates]) {
            let ended = tokio::time::timeout(Duration::from_mins(2), one).await;
            let _ = ended.expect("who waited for a stranger goes on");
        }
    }
}

fn slow_registries(registry: &Registry) -> Vec<FaultProxy> {
    let slow = |_| {
        let proxy = FaultProxy::before(registry.address());
        let fault = Fault::Slow {
            bytes_per_second: 1,
        };
        proxy.rule(Rule::on("/blobs/", fault));
        proxy
    };
    (0..REGISTRIES).map(slow).collect()
}

/// As a kubelet does.
async fn create_again_and_again(
    cri: Cri,
    pod_id: String,
    pod: orlop_testkit::PodSpec,
    spec: ContainerSpec,
) {
    while cri.create(&pod_id, &pod, &spec).await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// One that registers again whenever it is turned away, and answers nothing.
async fn mute_plugin(socket: std::path::PathBuf) {
    struct Mute;
    impl Answer for Mute {
        fn answer(
            &self,
            _method: String,
            _request: bytes::Bytes,
        ) -> BoxFuture<'_, Result<Vec<u8>, Status>> {
            Box::pin(std::future::pending())
        }
    }
    loop {
        if let Ok(stub) = Stub::connect(&socket, ("10", "mute"), Arc::new(Mute)).await {
            stub.closed().await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
