//! The CRI services, each call handed to the file in `rpc/` that bears its name.

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use orlop_cri::v1::image_service_server::ImageService;
use orlop_cri::v1::runtime_service_server::RuntimeService;
use orlop_cri::v1::{self as cri};
use orlop_service::timeline::Origin;
use tonic::{Request, Response, Status};

use crate::error::status;
use crate::rpc;
use crate::shim::Shim;

/// The answers of a streaming call.
pub(crate) type Answers<T> = BoxStream<'static, Result<T, Status>>;

/// Entries in one message of a streaming list.
const BATCH: usize = 64;

/// A list as a stream of batches; each is sent when the client is ready for it.
pub(crate) fn in_batches<T, M>(
    items: Vec<T>,
    make: impl Fn(Vec<T>) -> M + Send + 'static,
) -> Answers<M>
where
    T: Send + 'static,
    M: Send + 'static,
{
    let mut rest = items.into_iter();
    let batches = std::iter::from_fn(move || {
        let batch: Vec<T> = rest.by_ref().take(BATCH).collect();
        (!batch.is_empty()).then(|| Ok(make(batch)))
    });
    stream::iter(batches).boxed()
}

macro_rules! service {
    ($service:ident {
        asking { $($ask:ident($ask_request:ident) -> $ask_response:ident;)* }
        acting { $($act:ident($act_request:ident) -> $act_response:ident;)* }
        streaming { $($list:ident($list_request:ident) -> $item:ident as $stream:ident;)* }
    }) => {
        #[tonic::async_trait]
        impl $service for Shim {
            $(
                // Ends when the client leaves.
                async fn $ask(
                    &self,
                    request: Request<cri::$ask_request>,
                ) -> Result<Response<cri::$ask_response>, Status> {
                    let origin = Origin::of(&request);
                    let answer = rpc::$ask::call(self, request.into_inner());
                    let answer = origin.scope(answer).await;
                    answer.map(Response::new).map_err(|error| status(&error))
                }
            )*
            $(
                // What has been begun is carried to its end.
                async fn $act(
                    &self,
                    request: Request<cri::$act_request>,
                ) -> Result<Response<cri::$act_response>, Status> {
                    let shim = self.clone();
                    let origin = Origin::of(&request);
                    let request = request.into_inner();
                    let task = self.tasks.spawn(async move {
                        origin.scope(rpc::$act::call(&shim, request)).await
                    });
                    let answer = task.await.map_err(|_| Status::internal("the call broke"))?;
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
        // These two join and spawn what they do by themselves.
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

service!(ImageService {
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
