//! The service of a daemon without pods: what it is called and how it fares.
//! Every other call says that it is not built.

use std::collections::HashMap;

use orlop_cri::server::unimplemented;
use orlop_cri::v1::image_service_server::ImageService;
use orlop_cri::v1::runtime_service_server::RuntimeService;
use orlop_cri::{Rpc, v1};
use tokio_stream::Empty;
use tonic::{Request, Response, Status};

use crate::config::Config;
use crate::config::values::CgroupDriver;

/// Answers Version, Status and RuntimeConfig.
#[derive(Debug, Clone)]
pub(super) struct Bare {
    cgroup_driver: v1::CgroupDriver,
    info: HashMap<String, String>,
}

impl Bare {
    pub(super) fn new(config: &Config) -> Self {
        let info = serde_json::json!({
            "root": config.daemon.root.to_string(),
            "state": config.daemon.state.to_string(),
            "version": env!("CARGO_PKG_VERSION"),
        });
        Self {
            cgroup_driver: cgroup_driver(config.daemon.cgroup_driver),
            info: HashMap::from([("orlop".to_owned(), info.to_string())]),
        }
    }

    fn version() -> v1::VersionResponse {
        v1::VersionResponse {
            version: KUBELET_API_VERSION.to_owned(),
            runtime_name: "orlop".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_api_version: "v1".to_owned(),
        }
    }

    fn status(&self, request: v1::StatusRequest) -> v1::StatusResponse {
        let unready = |kind: &str, what: &str| v1::RuntimeCondition {
            r#type: kind.to_owned(),
            status: false,
            reason: "NotBuilt".to_owned(),
            message: format!("this daemon runs without {what}"),
        };
        v1::StatusResponse {
            status: Some(v1::RuntimeStatus {
                conditions: vec![
                    unready("RuntimeReady", "a pod runtime"),
                    unready("NetworkReady", "pod networking"),
                ],
            }),
            info: if request.verbose {
                self.info.clone()
            } else {
                HashMap::new()
            },
            ..v1::StatusResponse::default()
        }
    }

    fn runtime_config(&self) -> v1::RuntimeConfigResponse {
        v1::RuntimeConfigResponse {
            linux: Some(v1::LinuxRuntimeConfiguration {
                cgroup_driver: self.cgroup_driver.into(),
            }),
        }
    }
}

/// What the kubelet has expected in `VersionResponse.version` ever since.
const KUBELET_API_VERSION: &str = "0.1.0";

/// systemd makes the groups where it is the init and there is only cgroup v2.
fn cgroup_driver(asked: CgroupDriver) -> v1::CgroupDriver {
    let exists = |path: &str| std::path::Path::new(path).exists();
    let systemd = match asked {
        CgroupDriver::Systemd => true,
        CgroupDriver::Cgroupfs => false,
        CgroupDriver::Auto => {
            exists("/run/systemd/system") && exists("/sys/fs/cgroup/cgroup.controllers")
        }
    };
    if systemd {
        v1::CgroupDriver::Systemd
    } else {
        v1::CgroupDriver::Cgroupfs
    }
}

macro_rules! service {
    (
        $service:ident {
            answers { $( $answer:ident $answer_in:ident $answer_out:ident |$me:ident, $asked:ident| $body:expr, )* }
            calls { $( $call:ident $call_rpc:ident $call_in:ident $call_out:ident, )* }
            streams { $( $stream:ident $stream_rpc:ident $stream_type:ident $stream_in:ident $stream_out:ident, )* }
        }
    ) => {
        #[tonic::async_trait]
        impl $service for Bare {
            $(
                type $stream_type = Empty<Result<v1::$stream_out, Status>>;

                async fn $stream(
                    &self,
                    _: Request<v1::$stream_in>,
                ) -> Result<Response<Self::$stream_type>, Status> {
                    Err(unimplemented(Rpc::$stream_rpc))
                }
            )*
            $(
                async fn $call(
                    &self,
                    _: Request<v1::$call_in>,
                ) -> Result<Response<v1::$call_out>, Status> {
                    Err(unimplemented(Rpc::$call_rpc))
                }
            )*
            $(
                async fn $answer(
                    &self,
                    request: Request<v1::$answer_in>,
                ) -> Result<Response<v1::$answer_out>, Status> {
                    let ($me, $asked) = (self, request.get_ref());
                    Ok(Response::new($body))
                }
            )*
        }
    };
}

service! {
    RuntimeService {
        answers {
            version VersionRequest VersionResponse |_me, _asked| Self::version(),
            status StatusRequest StatusResponse |me, asked| me.status(*asked),
            runtime_config RuntimeConfigRequest RuntimeConfigResponse |me, _asked| me.runtime_config(),
        }
        calls {
            run_pod_sandbox RunPodSandbox RunPodSandboxRequest RunPodSandboxResponse,
            stop_pod_sandbox StopPodSandbox StopPodSandboxRequest StopPodSandboxResponse,
            remove_pod_sandbox RemovePodSandbox RemovePodSandboxRequest RemovePodSandboxResponse,
            pod_sandbox_status PodSandboxStatus PodSandboxStatusRequest PodSandboxStatusResponse,
            list_pod_sandbox ListPodSandbox ListPodSandboxRequest ListPodSandboxResponse,
            create_container CreateContainer CreateContainerRequest CreateContainerResponse,
            start_container StartContainer StartContainerRequest StartContainerResponse,
            stop_container StopContainer StopContainerRequest StopContainerResponse,
            remove_container RemoveContainer RemoveContainerRequest RemoveContainerResponse,
            list_containers ListContainers ListContainersRequest ListContainersResponse,
            container_status ContainerStatus ContainerStatusRequest ContainerStatusResponse,
            update_container_resources UpdateContainerResources UpdateContainerResourcesRequest UpdateContainerResourcesResponse,
            reopen_container_log ReopenContainerLog ReopenContainerLogRequest ReopenContainerLogResponse,
            exec_sync ExecSync ExecSyncRequest ExecSyncResponse,
            exec Exec ExecRequest ExecResponse,
            attach Attach AttachRequest AttachResponse,
            port_forward PortForward PortForwardRequest PortForwardResponse,
            container_stats ContainerStats ContainerStatsRequest ContainerStatsResponse,
            list_container_stats ListContainerStats ListContainerStatsRequest ListContainerStatsResponse,
            pod_sandbox_stats PodSandboxStats PodSandboxStatsRequest PodSandboxStatsResponse,
            list_pod_sandbox_stats ListPodSandboxStats ListPodSandboxStatsRequest ListPodSandboxStatsResponse,
            update_runtime_config UpdateRuntimeConfig UpdateRuntimeConfigRequest UpdateRuntimeConfigResponse,
            checkpoint_container CheckpointContainer CheckpointContainerRequest CheckpointContainerResponse,
            checkpoint_pod CheckpointPod CheckpointPodRequest CheckpointPodResponse,
            restore_pod RestorePod RestorePodRequest RestorePodResponse,
            list_metric_descriptors ListMetricDescriptors ListMetricDescriptorsRequest ListMetricDescriptorsResponse,
            list_pod_sandbox_metrics ListPodSandboxMetrics ListPodSandboxMetricsRequest ListPodSandboxMetricsResponse,
            update_pod_sandbox_resources UpdatePodSandboxResources UpdatePodSandboxResourcesRequest UpdatePodSandboxResourcesResponse,
        }
        streams {
            stream_pod_sandboxes StreamPodSandboxes StreamPodSandboxesStream StreamPodSandboxesRequest StreamPodSandboxesResponse,
            stream_containers StreamContainers StreamContainersStream StreamContainersRequest StreamContainersResponse,
            stream_container_stats StreamContainerStats StreamContainerStatsStream StreamContainerStatsRequest StreamContainerStatsResponse,
            stream_pod_sandbox_stats StreamPodSandboxStats StreamPodSandboxStatsStream StreamPodSandboxStatsRequest StreamPodSandboxStatsResponse,
            get_container_events GetContainerEvents GetContainerEventsStream GetEventsRequest ContainerEventResponse,
            stream_pod_sandbox_metrics StreamPodSandboxMetrics StreamPodSandboxMetricsStream StreamPodSandboxMetricsRequest StreamPodSandboxMetricsResponse,
        }
    }
}

service! {
    ImageService {
        answers {}
        calls {
            list_images ListImages ListImagesRequest ListImagesResponse,
            image_status ImageStatus ImageStatusRequest ImageStatusResponse,
            pull_image PullImage PullImageRequest PullImageResponse,
            remove_image RemoveImage RemoveImageRequest RemoveImageResponse,
            image_fs_info ImageFsInfo ImageFsInfoRequest ImageFsInfoResponse,
        }
        streams {
            stream_images StreamImages StreamImagesStream StreamImagesRequest StreamImagesResponse,
        }
    }
}
