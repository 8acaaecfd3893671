//! Shortcuts for the life cycle of pods, one call each.

use std::time::{Duration, Instant};

use orlop_cri_api::v1::{
    AuthConfig, ContainerState, ContainerStats, ContainerStatsRequest, ContainerStatus,
    ContainerStatusRequest, CreateContainerRequest, ExecSyncRequest, ExecSyncResponse, Image,
    ImageSpec, ImageStatusRequest, ListContainersRequest, ListPodSandboxRequest, PodSandboxConfig,
    PodSandboxStatus, PodSandboxStatusRequest, PullImageRequest, RemoveContainerRequest,
    RemoveImageRequest, RemovePodSandboxRequest, ReopenContainerLogRequest, RunPodSandboxRequest,
    StartContainerRequest, StopContainerRequest, StopPodSandboxRequest, VersionRequest,
    VersionResponse,
};
use tonic::{Response, Status};

use crate::cri::{ContainerSpec, Cri, PodSpec};

type Answer<T> = Result<T, Status>;

/// Time limit for a container to reach a state.
const STATE_LIMIT: Duration = Duration::from_secs(30);

/// Error of runsc if it fails to start a pod in the host network because an interface disappeared after it was listed
/// and before its features were queried. Concurrent tests create and remove interfaces all the time. A kubelet retries
/// as well.
const RUNSC_LOST_AN_INTERFACE: &str = "starting sandbox: no such device";

impl Cri {
    /// Returns the runtime's name and version.
    pub async fn version(&self) -> Answer<VersionResponse> {
        let request = VersionRequest::default();
        let answer = self.runtime().version(request).await;
        answer.map(Response::into_inner)
    }

    /// Pulls an image and returns its ID.
    pub async fn pull(&self, image: &str) -> Answer<String> {
        self.pull_as(image, None).await
    }

    /// Pulls an image with credentials.
    pub async fn pull_as(&self, image: &str, auth: Option<AuthConfig>) -> Answer<String> {
        self.pull_with(image, auth, None).await
    }

    /// Pulls an image for a pod, as the kubelet does.
    pub async fn pull_for(&self, image: &str, pod: &PodSpec) -> Answer<String> {
        self.pull_with(image, None, Some(pod.config())).await
    }

    async fn pull_with(
        &self,
        image: &str,
        auth: Option<AuthConfig>,
        sandbox_config: Option<PodSandboxConfig>,
    ) -> Answer<String> {
        let request = PullImageRequest {
            image: named(image),
            auth,
            sandbox_config,
        };
        let answer = self.images().pull_image(request).await?;
        Ok(answer.into_inner().image_ref)
    }

    /// Returns the status of an image.
    pub async fn image(&self, image: &str) -> Answer<Option<Image>> {
        let request = ImageStatusRequest {
            image: named(image),
            verbose: false,
        };
        let answer = self.images().image_status(request).await?;
        Ok(answer.into_inner().image)
    }

    /// Returns the status of an image that must exist.
    pub async fn known_image(&self, image: &str) -> Image {
        let known = self.image(image).await.expect("ask for an image");
        known.unwrap_or_else(|| panic!("there is no image {image}"))
    }

    /// Removes an image.
    pub async fn remove_image(&self, image: &str) -> Answer<()> {
        let request = RemoveImageRequest {
            image: named(image),
        };
        self.images().remove_image(request).await.map(drop)
    }

    /// Runs a pod and returns its ID.
    pub async fn run_pod(&self, pod: &PodSpec) -> Answer<String> {
        let request = RunPodSandboxRequest {
            config: Some(pod.config()),
            ..RunPodSandboxRequest::default()
        };
        let mut answer = self.runtime().run_pod_sandbox(request.clone()).await;
        for _ in 0..5 {
            match &answer {
                Err(status) if status.message().ends_with(RUNSC_LOST_AN_INTERFACE) => {
                    answer = self.runtime().run_pod_sandbox(request.clone()).await;
                }
                _ => break,
            }
        }
        Ok(answer?.into_inner().pod_sandbox_id)
    }

    /// Returns the status of a pod.
    pub async fn pod_status(&self, pod_id: &str) -> Answer<PodSandboxStatus> {
        let request = PodSandboxStatusRequest {
            pod_sandbox_id: pod_id.to_owned(),
            verbose: false,
        };
        let answer = self.runtime().pod_sandbox_status(request).await?;
        let status = answer.into_inner().status;
        status.ok_or_else(|| Status::data_loss("a PodSandboxStatus without a status"))
    }

    /// Returns the IDs of all pods.
    pub async fn pods(&self) -> Answer<Vec<String>> {
        let request = ListPodSandboxRequest::default();
        let answer = self.runtime().list_pod_sandbox(request).await?.into_inner();
        Ok(answer.items.into_iter().map(|pod| pod.id).collect())
    }

    /// Stops a pod.
    pub async fn stop_pod(&self, pod_id: &str) -> Answer<()> {
        let pod_sandbox_id = pod_id.to_owned();
        let request = StopPodSandboxRequest { pod_sandbox_id };
        self.runtime().stop_pod_sandbox(request).await.map(drop)
    }

    /// Removes a pod.
    pub async fn remove_pod(&self, pod_id: &str) -> Answer<()> {
        let pod_sandbox_id = pod_id.to_owned();
        let request = RemovePodSandboxRequest { pod_sandbox_id };
        self.runtime().remove_pod_sandbox(request).await.map(drop)
    }

    /// Stops and removes all pods.
    pub async fn remove_all_pods(&self) -> Answer<()> {
        for pod in self.pods().await? {
            self.stop_pod(&pod).await?;
            self.remove_pod(&pod).await?;
        }
        Ok(())
    }

    /// Creates a container and returns its ID.
    pub async fn create(
        &self,
        pod_id: &str,
        pod: &PodSpec,
        spec: &ContainerSpec,
    ) -> Answer<String> {
        let mut request = CreateContainerRequest {
            pod_sandbox_id: pod_id.to_owned(),
            config: Some(spec.config(pod)),
            sandbox_config: Some(pod.config()),
        };
        let mut client = self.runtime();
        let mut answer = Box::pin(client.create_container(request.clone())).await;
        // CRI-O requires `user_specified_image`, which only newer kubelets set.
        let wants_name = |status: &tonic::Status| status.message().contains("user specified image");
        if answer.as_ref().is_err_and(wants_name) {
            let image = request.config.as_mut().and_then(|its| its.image.as_mut());
            if let Some(image) = image {
                image.user_specified_image.clone_from(&image.image);
            }
            answer = Box::pin(client.create_container(request)).await;
        }
        Ok(answer?.into_inner().container_id)
    }

    /// Starts a container.
    pub async fn start(&self, container_id: &str) -> Answer<()> {
        let container_id = container_id.to_owned();
        let request = StartContainerRequest { container_id };
        self.runtime().start_container(request).await.map(drop)
    }

    /// Creates and starts a container, and returns its ID.
    pub async fn run(&self, pod_id: &str, pod: &PodSpec, spec: &ContainerSpec) -> Answer<String> {
        let id = Box::pin(self.create(pod_id, pod, spec)).await?;
        self.start(&id).await?;
        Ok(id)
    }

    /// Stops a container.
    pub async fn stop(&self, container_id: &str, grace_seconds: i64) -> Answer<()> {
        let request = StopContainerRequest {
            container_id: container_id.to_owned(),
            timeout: grace_seconds,
        };
        self.runtime().stop_container(request).await.map(drop)
    }

    /// Removes a container.
    pub async fn remove(&self, container_id: &str) -> Answer<()> {
        let container_id = container_id.to_owned();
        let request = RemoveContainerRequest { container_id };
        self.runtime().remove_container(request).await.map(drop)
    }

    /// Returns the status of a container.
    pub async fn status(&self, container_id: &str) -> Answer<ContainerStatus> {
        let request = ContainerStatusRequest {
            container_id: container_id.to_owned(),
            verbose: false,
        };
        let answer = self.runtime().container_status(request).await?;
        let status = answer.into_inner().status;
        status.ok_or_else(|| Status::data_loss("a ContainerStatus without a status"))
    }

    /// Returns the statistics of a container.
    pub async fn stats(&self, container_id: &str) -> Answer<ContainerStats> {
        let container_id = container_id.to_owned();
        let request = ContainerStatsRequest { container_id };
        let answer = self.runtime().container_stats(request).await?;
        let stats = answer.into_inner().stats;
        stats.ok_or_else(|| Status::data_loss("a ContainerStatsResponse without statistics"))
    }

    /// Reopens the log of a container.
    pub async fn reopen_log(&self, container_id: &str) -> Answer<()> {
        let container_id = container_id.to_owned();
        let request = ReopenContainerLogRequest { container_id };
        self.runtime().reopen_container_log(request).await.map(drop)
    }

    /// Returns the IDs of all containers.
    pub async fn containers(&self) -> Answer<Vec<String>> {
        let request = ListContainersRequest::default();
        let answer = self.runtime().list_containers(request).await?.into_inner();
        let containers = answer.containers.into_iter();
        Ok(containers.map(|container| container.id).collect())
    }

    /// Runs a command in a container and returns its output.
    pub async fn exec(&self, container_id: &str, words: &[&str]) -> Answer<ExecSyncResponse> {
        self.exec_within(container_id, words, 0).await
    }

    /// Runs a command with a timeout in seconds (0: none).
    pub async fn exec_within(
        &self,
        container_id: &str,
        words: &[&str],
        seconds: i64,
    ) -> Answer<ExecSyncResponse> {
        let request = ExecSyncRequest {
            container_id: container_id.to_owned(),
            cmd: words.iter().map(ToString::to_string).collect(),
            timeout: seconds,
        };
        let answer = self.runtime().exec_sync(request).await;
        answer.map(Response::into_inner)
    }

    /// Waits until a container has exited; panics after the time limit.
    pub async fn wait_exited(&self, container_id: &str) -> ContainerStatus {
        let deadline = Instant::now() + STATE_LIMIT;
        loop {
            let status = self.status(container_id).await;
            let status = status.expect("ask for a container's status");
            if status.state() == ContainerState::ContainerExited {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "the container has not exited: {status:#?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn named(image: &str) -> Option<ImageSpec> {
    let image = image.to_owned();
    Some(ImageSpec {
        image,
        ..ImageSpec::default()
    })
}
