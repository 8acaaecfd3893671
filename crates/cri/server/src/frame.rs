//! The gRPC services, shared by all backends. Each call is delegated to the file of its name in the backend's `rpc/`,
//! or in `rpc_images/`, `rpc_networks/` … for orlop's own services.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use tonic::Status;

use crate::fault::{Fault, status};

/// The responses of a streaming call.
pub type Answers<T> = BoxStream<'static, Result<T, Status>>;

/// Number of entries in one message of a streaming list.
const BATCH: usize = 64;

/// Streams a list in batches; a batch is built only when the client is ready for it.
pub fn in_batches<T, M>(
    items: Vec<T>,
    mut make: impl FnMut(Vec<T>) -> M + Send + 'static,
) -> Answers<M>
where
    T: Send + 'static,
    M: Send + 'static,
{
    stream::iter(batches(items).map(move |batch| Ok(make(batch)))).boxed()
}

/// Streams a list in batches that are slow to build.
pub fn in_slow_batches<T, M, F>(
    items: Vec<T>,
    make: impl FnMut(Vec<T>) -> F + Send + 'static,
) -> Answers<M>
where
    T: Send + 'static,
    M: Send + 'static,
    F: Future<Output = Result<M, Status>> + Send + 'static,
{
    stream::iter(batches(items)).then(make).boxed()
}

fn batches<T>(items: Vec<T>) -> impl Iterator<Item = Vec<T>> {
    let mut rest = items.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<T> = rest.by_ref().take(BATCH).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

/// Implementation of the services.
pub trait Backend: Clone + Send + Sync + 'static {
    /// The error of a call.
    type Failure: Fault + Send + Sync + 'static;

    /// Runs the work of a call that changes state. `work` may run in its own task, which continues if the client
    /// disconnects.
    fn act<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Arc<Self::Failure>>> + Send + 'static,
    ) -> impl Future<Output = Result<T, Arc<Self::Failure>>> + Send;
}

/// Implements CRI for a [`Backend`]. The module `rpc` must be in scope, with a module for each call that contains
/// `call(&backend, request)`.
#[macro_export]
macro_rules! serve_cri {
    ($backend:ty) => {
        $crate::serve_cri!(@service $backend, rpc: v1::runtime_service_server::RuntimeService {
            asking {
                version(VersionRequest) -> VersionResponse;
                pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse;
                list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse;
                list_containers(ListContainersRequest) -> ListContainersResponse;
                container_status(ContainerStatusRequest) -> ContainerStatusResponse;
                exec_sync(ExecSyncRequest) -> ExecSyncResponse;
                exec(ExecRequest) -> ExecResponse;
                attach(AttachRequest) -> AttachResponse;
                port_forward(PortForwardRequest) -> PortForwardResponse;
                container_stats(ContainerStatsRequest) -> ContainerStatsResponse;
                list_container_stats(ListContainerStatsRequest) -> ListContainerStatsResponse;
                pod_sandbox_stats(PodSandboxStatsRequest) -> PodSandboxStatsResponse;
                list_pod_sandbox_stats(ListPodSandboxStatsRequest) -> ListPodSandboxStatsResponse;
                status(StatusRequest) -> StatusResponse;
                checkpoint_container(CheckpointContainerRequest) -> CheckpointContainerResponse;
                checkpoint_pod(CheckpointPodRequest) -> CheckpointPodResponse;
                restore_pod(RestorePodRequest) -> RestorePodResponse;
                list_metric_descriptors(ListMetricDescriptorsRequest) -> ListMetricDescriptorsResponse;
                list_pod_sandbox_metrics(ListPodSandboxMetricsRequest) -> ListPodSandboxMetricsResponse;
                runtime_config(RuntimeConfigRequest) -> RuntimeConfigResponse;
                // A retry joins a running call of these two, and they continue without a client.
                run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse;
                create_container(CreateContainerRequest) -> CreateContainerResponse;
            }
            acting {
                stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse;
                remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse;
                start_container(StartContainerRequest) -> StartContainerResponse;
                stop_container(StopContainerRequest) -> StopContainerResponse;
                remove_container(RemoveContainerRequest) -> RemoveContainerResponse;
                update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse;
                update_pod_sandbox_resources(UpdatePodSandboxResourcesRequest) -> UpdatePodSandboxResourcesResponse;
                reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse;
                update_runtime_config(UpdateRuntimeConfigRequest) -> UpdateRuntimeConfigResponse;
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
        $crate::serve_cri!(@service $backend, rpc: v1::image_service_server::ImageService {
            asking {
                list_images(ListImagesRequest) -> ListImagesResponse;
                image_status(ImageStatusRequest) -> ImageStatusResponse;
                pull_image(PullImageRequest) -> PullImageResponse;
                image_fs_info(ImageFsInfoRequest) -> ImageFsInfoResponse;
            }
            acting {
                remove_image(RemoveImageRequest) -> RemoveImageResponse;
            }
            streaming {
                stream_images(StreamImagesRequest) -> StreamImagesResponse as StreamImagesStream;
            }
        });
    };
    (@service $backend:ty, $rpc:ident: $package:ident::$server:ident::$service:ident {
        asking { $($ask:ident($ask_request:ident) -> $ask_response:ident;)* }
        acting { $($act:ident($act_request:ident) -> $act_response:ident;)* }
        streaming { $($list:ident($list_request:ident) -> $item:ident as $stream:ident;)* }
        $(taking { $($take:ident($part:ident) -> $take_response:ident;)* })?
    }) => {
        #[tonic::async_trait]
        impl orlop_cri_api::$package::$server::$service for $backend {
            $(
                // Stops when the client disconnects.
                async fn $ask(
                    &self,
                    request: tonic::Request<orlop_cri_api::$package::$ask_request>,
                ) -> Result<tonic::Response<orlop_cri_api::$package::$ask_response>, tonic::Status> {
                    let origin = $crate::timeline::Origin::of(&request);
                    let answer = $rpc::$ask::call(self, request.into_inner());
                    let answer = origin.scope(answer).await;
                    $crate::frame::answered::<Self, _>(answer)
                }
            )*
            $(
                async fn $act(
                    &self,
                    request: tonic::Request<orlop_cri_api::$package::$act_request>,
                ) -> Result<tonic::Response<orlop_cri_api::$package::$act_response>, tonic::Status> {
                    let backend = self.clone();
                    let origin = $crate::timeline::Origin::of(&request);
                    let request = request.into_inner();
                    let work = async move { origin.scope($rpc::$act::call(&backend, request)).await };
                    let answer = $crate::frame::Backend::act(self, work).await;
                    $crate::frame::answered::<Self, _>(answer)
                }
            )*
            $(
                type $stream = $crate::frame::Answers<orlop_cri_api::$package::$item>;

                async fn $list(
                    &self,
                    request: tonic::Request<orlop_cri_api::$package::$list_request>,
                ) -> Result<tonic::Response<Self::$stream>, tonic::Status> {
                    let origin = $crate::timeline::Origin::of(&request);
                    let answer = $rpc::$list::call(self, request.into_inner());
                    let answer = origin.scope(answer).await;
                    $crate::frame::answered::<Self, _>(answer)
                }
            )*
            $($(
                async fn $take(
                    &self,
                    request: tonic::Request<tonic::Streaming<orlop_cri_api::$package::$part>>,
                ) -> Result<tonic::Response<orlop_cri_api::$package::$take_response>, tonic::Status> {
                    let answer = $rpc::$take::call(self, request.into_inner()).await;
                    $crate::frame::answered::<Self, _>(answer)
                }
            )*)?
        }
    };
}

/// Implements `orlop.v1.Inspection` for a [`Backend`], from its `rpc_inspection`.
#[macro_export]
macro_rules! serve_inspection {
    ($backend:ty) => {
        $crate::serve_cri!(@service $backend, rpc_inspection: inspection::inspection_server::Inspection {
            asking {
                list_traces(ListTracesRequest) -> ListTracesResponse;
                list_events(ListEventsRequest) -> ListEventsResponse;
                get_state(GetStateRequest) -> GetStateResponse;
                examine(ExamineRequest) -> ExamineResponse;
            }
            acting {}
            streaming {}
        });
    };
}

/// Implements `orlop.v1.Images` for a [`Backend`], from its `rpc_images`.
#[macro_export]
macro_rules! serve_images {
    ($backend:ty) => {
        $crate::serve_cri!(@service $backend, rpc_images: images::images_server::Images {
            asking {
                judge_image(JudgeImageRequest) -> JudgeImageResponse;
                resolve_image(ResolveImageRequest) -> ResolveImageResponse;
                collect_garbage(CollectGarbageRequest) -> CollectGarbageResponse;
                list_images_here(ListImagesHereRequest) -> ListImagesHereResponse;
            }
            acting {}
            streaming {
                watch_pulls(WatchPullsRequest) -> PullProgress as WatchPullsStream;
                export_images(ExportImagesRequest) -> ExportImagesResponse as ExportImagesStream;
                verify_images(VerifyImagesRequest) -> VerifyImagesResponse as VerifyImagesStream;
                fetch_images(FetchImagesRequest) -> ImageHere as FetchImagesStream;
                watch_read_failures(WatchReadFailuresRequest) -> ReadFailure as WatchReadFailuresStream;
            }
            taking {
                import_images(ImportImagesRequest) -> ImportImagesResponse;
            }
        });
    };
}

/// Implements orlop's other services for a [`Backend`]: networks from `rpc_networks`, containers from
/// `rpc_containers`.
#[macro_export]
macro_rules! serve_extensions {
    ($backend:ty) => {
        $crate::serve_cri!(@service $backend, rpc_networks: extensions::networks_server::Networks {
            asking {
                list_networks(ListNetworksRequest) -> ListNetworksResponse;
                list_attachments(ListAttachmentsRequest) -> ListAttachmentsResponse;
                collect_network_garbage(CollectNetworkGarbageRequest) -> CollectNetworkGarbageResponse;
            }
            acting {}
            streaming {}
        });
        $crate::serve_cri!(@service $backend, rpc_containers: extensions::containers_server::Containers {
            asking {}
            acting {}
            streaming {
                list_changes(ListChangesRequest) -> ListChangesResponse as ListChangesStream;
            }
        });
    };
}

/// Converts the result of a call to the client's response.
pub fn answered<B: Backend, T>(
    answer: Result<T, Arc<B::Failure>>,
) -> Result<tonic::Response<T>, Status> {
    answer
        .map(tonic::Response::new)
        .map_err(|failure| status(&*failure))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Takes three batches and one more item, in sequence; `made` counts the batches.
    async fn take_slowly(mut answers: Answers<Vec<usize>>, made: &AtomicUsize) {
        let mut all = Vec::new();
        for taken in 1..=4 {
            assert_eq!(made.load(Ordering::SeqCst), taken - 1);
            all.extend(answers.next().await.expect("a batch").expect("made"));
        }
        assert!(answers.next().await.is_none());
        assert!(all.into_iter().eq(0..=3 * 64));
    }

    #[tokio::test]
    async fn batches_are_made_as_the_client_takes_them() {
        let made = Arc::new(AtomicUsize::new(0));
        let items: Vec<usize> = (0..=3 * 64).collect();
        let count = Arc::clone(&made);
        let at_once = in_batches(items.clone(), move |batch| {
            count.fetch_add(1, Ordering::SeqCst);
            batch
        });
        take_slowly(at_once, &made).await;
        made.store(0, Ordering::SeqCst);
        let count = Arc::clone(&made);
        let slowly = in_slow_batches(items, move |batch| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(batch) }
        });
        take_slowly(slowly, &made).await;
    }
}
