//! What it costs to be asked by a kubelet all the time.

use std::time::{Duration, Instant};

use orlop_cri_api::v1::{
    ImageFsInfoRequest, ListContainersRequest, ListImagesRequest, ListPodSandboxRequest,
    ListPodSandboxStatsRequest, StatusRequest,
};

use crate::report::Report;
use crate::{Subject, cpu, rows};

/// How often the kubelet asks what, by its defaults, beside its relisting of pods each second:
/// its look at the runtime, the round of its eviction manager, that of its image manager.
const RUNTIME: u64 = 5;
const EVICTION: u64 = 10;
const IMAGES: u64 = 30;

/// Asks all that for so many seconds.
pub(crate) async fn run(subject: &Subject, seconds: u64, report: &mut Report) {
    let mut runtime = subject.cri.runtime.clone();
    let mut images = subject.cri.images.clone();
    let daemon = subject.node.pid();
    let (begin, before) = (Instant::now(), cpu::of_process(daemon).expect("it runs"));
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    // The first is at once; with the last a whole number of seconds is over.
    for second in 0..=seconds {
        ticks.tick().await;
        if second == seconds {
            break;
        }
        let request = ListPodSandboxRequest::default();
        runtime.list_pod_sandbox(request).await.expect("pods");
        let request = ListContainersRequest::default();
        runtime.list_containers(request).await.expect("containers");
        if second % RUNTIME == 0 {
            let request = StatusRequest::default();
            runtime.status(request).await.expect("status");
        }
        if second % EVICTION == 0 {
            let request = ListPodSandboxStatsRequest::default();
            let done = runtime.list_pod_sandbox_stats(request).await;
            done.expect("stats");
            let request = ImageFsInfoRequest::default();
            images.image_fs_info(request).await.expect("file systems");
        }
        if second % IMAGES == 0 {
            let request = ListImagesRequest::default();
            images.list_images(request).await.expect("images");
        }
    }
    let spent = cpu::of_process(daemon)
        .expect("it runs")
        .saturating_sub(before);
    let percent = 100.0 * spent.as_secs_f64() / begin.elapsed().as_secs_f64();
    report.number(rows::POLLING, "%", subject.name, percent);
}
