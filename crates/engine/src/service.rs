//! The CRI services, each call handed to the file in `rpc/` that bears its name.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use orlop_cri::v1::image_service_server::ImageService;
use orlop_cri::v1::runtime_service_server::RuntimeService;
use orlop_cri::v1::{self as cri};
use tonic::{Request, Response, Status};

use crate::engine::Engine;
use crate::error::status;
use crate::rpc;
use crate::timeline::Origin;

/// The answers of a streaming call.
pub type Answers<T> = BoxStream<'static, Result<T, Status>>;

/// Entries in one message of a streaming list.
const BATCH: usize = 64;

/// A list as a stream of batches; a batch is made only when the client is ready for it.
pub fn in_batches<T, M, F>(items: Vec<Arc<T>>, make: F) -> Answers<M>
where
    T: Send + Sync + 'static,
    M: Send + 'static,
    F: Fn(&[Arc<T>]) -> M + Send + 'static,
{
    let count = items.len();
    let starts = (0..count).step_by(BATCH);
    stream::iter(starts.map(move |start| Ok(make(&items[start..count.min(start + BATCH)])))).boxed()
}

/// The same for batches that are made from files rather than from memory.
pub fn in_blocking_batches<T, M, F>(items: Vec<Arc<T>>, make: F) -> Answers<M>
where
    T: Send + Sync + 'static,
    M: Send + 'static,
    F: Fn(&[Arc<T>]) -> M + Send + Sync + 'static,
{
    let make = Arc::new(make);
    let batches: Vec<Vec<Arc<T>>> = items.chunks(BATCH).map(<[_]>::to_vec).collect();
    stream::iter(batches)
        .then(move |batch| {
            let make = Arc::clone(&make);
            async move {
                let made = crate::blocking(move || Ok(make(&batch))).await;
                made.map_err(|error| status(&error))
            }
        })
        .boxed()
}

macro_rules! service {
    ($service:ident {
        unary { $($call:ident($request:ident) -> $response:ident;)* }
        streaming { $($list:ident($list_request:ident) -> $item:ident as $stream:ident;)* }
    }) => {
        #[tonic::async_trait]
        impl $service for Engine {
            $(
                async fn $call(
                    &self,
                    request: Request<cri::$request>,
                ) -> Result<Response<cri::$response>, Status> {
                    let origin = Origin::of(&request);
                    let answer = rpc::$call::call(self, request.into_inner());
                    let answer = origin.scope(answer).await;
                    answer.map(Response::new).map_err(|error| status(&error))
                }
            )*
            $(
                type $stream = Answers<cri::$item>;

                async fn $list(
                    &self,
                    request: Request<cri::$list_request>,
                ) -> Result<Response<Self::$stream>, Status> {
                    let answer = rpc::$list::call(self, request.into_inner()).await;
                    answer.map(Response::new).map_err(|error| status(&error))
                }
            )*
        }
    };
}

service!(RuntimeService {
    unary {
        version(VersionRequest) -> VersionResponse;
        run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse;
        stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse;
        remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse;
        pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse;
        list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse;
        create_container(CreateContainerRequest) -> CreateContainerResponse;
        start_container(StartContainerRequest) -> StartContainerResponse;
        stop_container(StopContainerRequest) -> StopContainerResponse;
        remove_container(RemoveContainerRequest) -> RemoveContainerResponse;
        list_containers(ListContainersRequest) -> ListContainersResponse;
        container_status(ContainerStatusRequest) -> ContainerStatusResponse;
        update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse;
        reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse;
        exec_sync(ExecSyncRequest) -> ExecSyncResponse;
        exec(ExecRequest) -> ExecResponse;
        attach(AttachRequest) -> AttachResponse;
        port_forward(PortForwardRequest) -> PortForwardResponse;
        container_stats(ContainerStatsRequest) -> ContainerStatsResponse;
        list_container_stats(ListContainerStatsRequest) -> ListContainerStatsResponse;
        pod_sandbox_stats(PodSandboxStatsRequest) -> PodSandboxStatsResponse;
        list_pod_sandbox_stats(ListPodSandboxStatsRequest) -> ListPodSandboxStatsResponse;
        update_runtime_config(UpdateRuntimeConfigRequest) -> UpdateRuntimeConfigResponse;
        status(StatusRequest) -> StatusResponse;
        checkpoint_container(CheckpointContainerRequest) -> CheckpointContainerResponse;
        checkpoint_pod(CheckpointPodRequest) -> CheckpointPodResponse;
        restore_pod(RestorePodRequest) -> RestorePodResponse;
        list_metric_descriptors(ListMetricDescriptorsRequest) -> ListMetricDescriptorsResponse;
        list_pod_sandbox_metrics(ListPodSandboxMetricsRequest) -> ListPodSandboxMetricsResponse;
        runtime_config(RuntimeConfigRequest) -> RuntimeConfigResponse;
        update_pod_sandbox_resources(UpdatePodSandboxResourcesRequest) -> UpdatePodSandboxResourcesResponse;
    }
    streaming {
        stream_pod_sandboxes(StreamPodSandboxesRequest) -> StreamPodSandboxesResponse as StreamPodSandboxesStream;
        stream_containers(StreamContainersRequest) -> StreamContainersResponse as StreamContainersStream;
        stream_container_stats(StreamContainerStatsRequest) -> StreamContainerStatsResponse as StreamContainerStatsStream;
        stream_pod_sandbox_stats(StreamPodSandboxStatsRequest) -> StreamPodSandboxStatsResponse as StreamPodSandboxStatsStream;
        get_container_events(GetEventsRequest) -> ContainerEventResponse as GetContainerEventsStream;
        stream_pod_sandbox_metrics(StreamPodSandboxMetricsRequest) -> StreamPodSandboxMetricsResponse as StreamPodSandboxMetricsStream;
    }
});

service!(ImageService {
    unary {
        list_images(ListImagesRequest) -> ListImagesResponse;
        image_status(ImageStatusRequest) -> ImageStatusResponse;
        pull_image(PullImageRequest) -> PullImageResponse;
        remove_image(RemoveImageRequest) -> RemoveImageResponse;
        image_fs_info(ImageFsInfoRequest) -> ImageFsInfoResponse;
    }
    streaming {
        stream_images(StreamImagesRequest) -> StreamImagesResponse as StreamImagesStream;
    }
});

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Takes three batches and one item more, one after the other; `made` counts the batches.
    async fn take_slowly(mut answers: Answers<Vec<usize>>, made: &AtomicUsize) {
        let mut all = Vec::new();
        for taken in 1..=4 {
            assert_eq!(made.load(Ordering::SeqCst), taken - 1);
            all.extend(answers.next().await.expect("a batch").expect("made"));
        }
        assert!(answers.next().await.is_none());
        assert!(all.into_iter().eq(0..=3 * BATCH));
    }

    fn items() -> Vec<Arc<usize>> {
        (0..=3 * BATCH).map(Arc::new).collect()
    }

    /// Makes batches, and counts them.
    fn counting(
        made: &Arc<AtomicUsize>,
    ) -> impl Fn(&[Arc<usize>]) -> Vec<usize> + Send + Sync + 'static {
        let made = Arc::clone(made);
        move |batch| {
            made.fetch_add(1, Ordering::SeqCst);
            batch.iter().map(|item| **item).collect()
        }
    }

    #[tokio::test]
    async fn lists_are_made_as_the_client_takes_them() {
        let made = Arc::new(AtomicUsize::new(0));
        take_slowly(in_batches(items(), counting(&made)), &made).await;
    }

    #[tokio::test]
    async fn batches_are_made_as_the_client_takes_them() {
        let made = Arc::new(AtomicUsize::new(0));
        take_slowly(in_blocking_batches(items(), counting(&made)), &made).await;
    }
}
