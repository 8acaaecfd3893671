//! A runtime in this process whose answers a test decides.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use orlop_cri_api::server::{MessageLimits, V1Alpha2Layer, unimplemented};
use orlop_cri_api::v1::image_service_server::ImageService;
use orlop_cri_api::v1::runtime_service_server::RuntimeService;
use orlop_cri_api::v1::*;
use orlop_cri_api::{Endpoint, Rpc};
use tokio::net::UnixListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;
type Parts<T> = futures_util::stream::BoxStream<'static, Result<T, Status>>;

/// What the fake does.
#[derive(Default)]
pub(crate) struct Behaviour {
    /// Wait this long before `Version` is answered.
    pub(crate) version_delay: Duration,
    /// How many containers there are, each in a message of its own when streamed.
    pub(crate) containers: usize,
    /// Bytes of an annotation of each container.
    pub(crate) padding: usize,
    /// Lists can be streamed.
    pub(crate) streams: bool,
    /// The status of a container.
    pub(crate) status: Option<ContainerStatus>,
}

/// What the fake saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) streamed_lists: AtomicUsize,
    pub(crate) unary_lists: AtomicUsize,
    pub(crate) timeouts: AtomicUsize,
    pub(crate) pull_begun: Notify,
    pub(crate) pull_dropped: Notify,
}

#[derive(Clone)]
struct Fake {
    behaviour: Arc<Behaviour>,
    seen: Arc<Seen>,
}

/// A running fake; stops when dropped.
pub(crate) struct Running {
    pub(crate) endpoint: Endpoint,
    pub(crate) seen: Arc<Seen>,
    pub(crate) socket: PathBuf,
    task: JoinHandle<()>,
    directory: Arc<tempfile::TempDir>,
}

impl Running {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        Self::start_in(directory, behaviour)
    }

    /// Ends the server at once, its connections too, and keeps the directory.
    pub(crate) async fn stop(self) -> Arc<tempfile::TempDir> {
        let directory = self.directory.clone();
        self.task.abort();
        let _ = std::fs::remove_file(&self.socket);
        // Connections are tasks of their own, which live until the client lets go.
        tokio::task::yield_now().await;
        directory
    }

    pub(crate) fn start_in(directory: Arc<tempfile::TempDir>, behaviour: Behaviour) -> Self {
        let socket = directory.path().join("fake.sock");
        let seen = Arc::new(Seen::default());
        let fake = Fake {
            behaviour: Arc::new(behaviour),
            seen: seen.clone(),
        };
        let task = serve(&socket, fake);
        let endpoint = socket.to_str().unwrap().parse().unwrap();
        Self {
            endpoint,
            seen,
            socket,
            task,
            directory,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn serve(socket: &Path, fake: Fake) -> JoinHandle<()> {
    let listener = UnixListener::bind(socket).unwrap();
    let limits = MessageLimits {
        send: 64 << 20,
        ..MessageLimits::default()
    };
    tokio::spawn(async move {
        tonic::transport::Server::builder()
            .layer(V1Alpha2Layer)
            .add_service(limits.runtime_service(fake.clone()))
            .add_service(limits.image_service(fake))
            .serve_with_incoming(UnixListenerStream::new(listener))
            .await
            .unwrap();
    })
}

impl Fake {
    fn containers(&self) -> Vec<Container> {
        (0..self.behaviour.containers)
            .map(|number| Container {
                id: format!("c{number}"),
                annotations: [("padding".to_owned(), "x".repeat(self.behaviour.padding))].into(),
                ..Default::default()
            })
            .collect()
    }
}

/// Implements the service: what the test needs by hand, the rest unbuilt.
macro_rules! runtime {
    ({ $($built:item)* } $($method:ident $rpc:ident($request:ident) $answer:ident;)*) => {
        #[tonic::async_trait]
        impl RuntimeService for Fake {
            $($built)*
            $(async fn $method(&self, _: Request<$request>) -> Answer<$answer> {
                Err(unimplemented(Rpc::$rpc))
            })*
        }
    };
}

runtime! {
    {
        type StreamPodSandboxesStream = Parts<StreamPodSandboxesResponse>;
        type StreamContainersStream = Parts<StreamContainersResponse>;
        type StreamContainerStatsStream = Parts<StreamContainerStatsResponse>;
        type StreamPodSandboxStatsStream = Parts<StreamPodSandboxStatsResponse>;
        type StreamPodSandboxMetricsStream = Parts<StreamPodSandboxMetricsResponse>;
        type GetContainerEventsStream = Parts<ContainerEventResponse>;

        async fn version(&self, request: Request<VersionRequest>) -> Answer<VersionResponse> {
            if request.metadata().contains_key("grpc-timeout") {
                self.seen.timeouts.fetch_add(1, Ordering::Relaxed);
            }
            tokio::time::sleep(self.behaviour.version_delay).await;
            Ok(Response::new(VersionResponse {
                version: "0.1.0".into(),
                runtime_name: "fake".into(),
                runtime_version: "1.0.0".into(),
                runtime_api_version: "v1".into(),
            }))
        }

        async fn list_containers(
            &self,
            _: Request<ListContainersRequest>,
        ) -> Answer<ListContainersResponse> {
            self.seen.unary_lists.fetch_add(1, Ordering::Relaxed);
            Ok(Response::new(ListContainersResponse { containers: self.containers() }))
        }

        async fn stream_containers(
            &self,
            _: Request<StreamContainersRequest>,
        ) -> Answer<Self::StreamContainersStream> {
            self.seen.streamed_lists.fetch_add(1, Ordering::Relaxed);
            if !self.behaviour.streams {
                return Err(unimplemented(Rpc::StreamContainers));
            }
            let parts = self.containers().into_iter().map(|container| {
                Ok(StreamContainersResponse { containers: vec![container] })
            });
            Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
        }

        async fn container_status(
            &self,
            _: Request<ContainerStatusRequest>,
        ) -> Answer<ContainerStatusResponse> {
            match self.behaviour.status.clone() {
                None => Err(Status::not_found("no such container")),
                status => Ok(Response::new(ContainerStatusResponse {
                    status,
                    ..Default::default()
                })),
            }
        }

        async fn exec_sync(&self, request: Request<ExecSyncRequest>) -> Answer<ExecSyncResponse> {
            let request = request.into_inner();
            if request.cmd == ["sleep"] {
                return Err(Status::deadline_exceeded("killed"));
            }
            Ok(Response::new(ExecSyncResponse {
                stdout: request.cmd.join(" ").into(),
                exit_code: 3,
                ..Default::default()
            }))
        }

        async fn stream_pod_sandboxes(
            &self,
            _: Request<StreamPodSandboxesRequest>,
        ) -> Answer<Self::StreamPodSandboxesStream> {
            Err(unimplemented(Rpc::StreamPodSandboxes))
        }

        async fn stream_container_stats(
            &self,
            _: Request<StreamContainerStatsRequest>,
        ) -> Answer<Self::StreamContainerStatsStream> {
            Err(unimplemented(Rpc::StreamContainerStats))
        }

        async fn stream_pod_sandbox_stats(
            &self,
            _: Request<StreamPodSandboxStatsRequest>,
        ) -> Answer<Self::StreamPodSandboxStatsStream> {
            Err(unimplemented(Rpc::StreamPodSandboxStats))
        }

        async fn stream_pod_sandbox_metrics(
            &self,
            _: Request<StreamPodSandboxMetricsRequest>,
        ) -> Answer<Self::StreamPodSandboxMetricsStream> {
            Err(unimplemented(Rpc::StreamPodSandboxMetrics))
        }

        async fn get_container_events(
            &self,
            _: Request<GetEventsRequest>,
        ) -> Answer<Self::GetContainerEventsStream> {
            Err(unimplemented(Rpc::GetContainerEvents))
        }
    }
    run_pod_sandbox RunPodSandbox(RunPodSandboxRequest) RunPodSandboxResponse;
    stop_pod_sandbox StopPodSandbox(StopPodSandboxRequest) StopPodSandboxResponse;
    remove_pod_sandbox RemovePodSandbox(RemovePodSandboxRequest) RemovePodSandboxResponse;
    pod_sandbox_status PodSandboxStatus(PodSandboxStatusRequest) PodSandboxStatusResponse;
    list_pod_sandbox ListPodSandbox(ListPodSandboxRequest) ListPodSandboxResponse;
    create_container CreateContainer(CreateContainerRequest) CreateContainerResponse;
    start_container StartContainer(StartContainerRequest) StartContainerResponse;
    stop_container StopContainer(StopContainerRequest) StopContainerResponse;
    remove_container RemoveContainer(RemoveContainerRequest) RemoveContainerResponse;
    update_container_resources UpdateContainerResources(UpdateContainerResourcesRequest)
        UpdateContainerResourcesResponse;
    reopen_container_log ReopenContainerLog(ReopenContainerLogRequest) ReopenContainerLogResponse;
    exec Exec(ExecRequest) ExecResponse;
    attach Attach(AttachRequest) AttachResponse;
    port_forward PortForward(PortForwardRequest) PortForwardResponse;
    container_stats ContainerStats(ContainerStatsRequest) ContainerStatsResponse;
    list_container_stats ListContainerStats(ListContainerStatsRequest) ListContainerStatsResponse;
    pod_sandbox_stats PodSandboxStats(PodSandboxStatsRequest) PodSandboxStatsResponse;
    list_pod_sandbox_stats ListPodSandboxStats(ListPodSandboxStatsRequest)
        ListPodSandboxStatsResponse;
    update_runtime_config UpdateRuntimeConfig(UpdateRuntimeConfigRequest)
        UpdateRuntimeConfigResponse;
    status Status(StatusRequest) StatusResponse;
    checkpoint_container CheckpointContainer(CheckpointContainerRequest)
        CheckpointContainerResponse;
    checkpoint_pod CheckpointPod(CheckpointPodRequest) CheckpointPodResponse;
    restore_pod RestorePod(RestorePodRequest) RestorePodResponse;
    list_metric_descriptors ListMetricDescriptors(ListMetricDescriptorsRequest)
        ListMetricDescriptorsResponse;
    list_pod_sandbox_metrics ListPodSandboxMetrics(ListPodSandboxMetricsRequest)
        ListPodSandboxMetricsResponse;
    runtime_config RuntimeConfig(RuntimeConfigRequest) RuntimeConfigResponse;
    update_pod_sandbox_resources UpdatePodSandboxResources(UpdatePodSandboxResourcesRequest)
        UpdatePodSandboxResourcesResponse;
}

#[tonic::async_trait]
impl ImageService for Fake {
    type StreamImagesStream = Parts<StreamImagesResponse>;

    async fn list_images(&self, _: Request<ListImagesRequest>) -> Answer<ListImagesResponse> {
        Err(unimplemented(Rpc::ListImages))
    }

    async fn stream_images(
        &self,
        _: Request<StreamImagesRequest>,
    ) -> Answer<Self::StreamImagesStream> {
        Err(unimplemented(Rpc::StreamImages))
    }

    async fn image_status(&self, _: Request<ImageStatusRequest>) -> Answer<ImageStatusResponse> {
        Ok(Response::new(ImageStatusResponse {
            image: Some(Image::default()),
            ..Default::default()
        }))
    }

    /// Never ends by itself; tells when it is given up.
    async fn pull_image(&self, _: Request<PullImageRequest>) -> Answer<PullImageResponse> {
        struct Tell(Arc<Seen>);
        impl Drop for Tell {
            fn drop(&mut self) {
                self.0.pull_dropped.notify_one();
            }
        }
        let _tell = Tell(self.seen.clone());
        self.seen.pull_begun.notify_one();
        std::future::pending().await
    }

    async fn remove_image(&self, _: Request<RemoveImageRequest>) -> Answer<RemoveImageResponse> {
        Err(unimplemented(Rpc::RemoveImage))
    }

    async fn image_fs_info(&self, _: Request<ImageFsInfoRequest>) -> Answer<ImageFsInfoResponse> {
        Ok(Response::new(ImageFsInfoResponse::default()))
    }
}
