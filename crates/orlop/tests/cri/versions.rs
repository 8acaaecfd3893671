//! Who answers, on both versions of the interface.

use std::time::Duration;

use orlop_cri_api::Rpc;
use orlop_cri_api::v1::{
    AttachRequest, ContainerStatsRequest, ContainerStatsResponse, ContainerStatusRequest,
    CreateContainerRequest, ExecRequest, ExecResponse, ExecSyncRequest, ImageFsInfoResponse,
    ImageSpec, ImageStatusRequest, LinuxContainerResources, ListContainerStatsResponse,
    ListPodSandboxMetricsResponse, ListPodSandboxStatsResponse, PodSandboxStatsRequest,
    PodSandboxStatsResponse, PodSandboxStatusRequest, PodSandboxStatusResponse, PortForwardRequest,
    PullImageRequest, RemoveContainerRequest, RemoveImageRequest, RemovePodSandboxRequest,
    ReopenContainerLogRequest, RunPodSandboxRequest, StartContainerRequest, StatusRequest,
    StatusResponse, StopContainerRequest, StopPodSandboxRequest, StreamContainerStatsResponse,
    StreamPodSandboxMetricsResponse, StreamPodSandboxStatsResponse,
    UpdateContainerResourcesRequest, UpdatePodSandboxResourcesRequest, VersionRequest,
    VersionResponse,
};
use orlop_testkit::{Cri, Node, machine, skip_unless};
use prost::Message;
use tokio::time::timeout;
use tonic::Code;

use crate::world::{Running, World, world};

fn request() -> VersionRequest {
    VersionRequest {
        version: "0.1.0".to_owned(),
    }
}

#[tokio::test]
async fn both_versions_of_the_interface_agree() {
    skip_unless!(machine::can_run_pods());
    let mut node = Node::start().await;
    let cri = node.cri().await;
    let v1: VersionResponse = cri
        .call("/runtime.v1.RuntimeService/Version", request())
        .await
        .expect("v1");
    let old: VersionResponse = cri
        .call("/runtime.v1alpha2.RuntimeService/Version", request())
        .await
        .expect("v1alpha2");
    assert_eq!(
        v1.runtime_name,
        if node.is_peer() {
            "containerd"
        } else {
            "orlop"
        }
    );
    assert!(!v1.runtime_version.is_empty());
    assert!(node.is_peer() || v1.runtime_version == env!("CARGO_PKG_VERSION"));
    assert_eq!(v1.runtime_api_version, "v1");
    assert_eq!(old.runtime_name, v1.runtime_name);
    assert_eq!(old.runtime_version, v1.runtime_version);
    drop(cri);
    assert!(node.is_peer() || node.stop().success());
}

#[tokio::test]
async fn each_call_has_the_same_answer_in_both_versions() {
    let world = world!(Node::orlop());
    let running = world.run_script("main", "sleep 86400").await;
    let mut requests: Vec<(Rpc, Vec<u8>)> = Rpc::ALL.iter().map(|rpc| (*rpc, vec![])).collect();
    assert_eq!(requests.len(), 43);
    requests.extend(complete_requests(&world, &running));
    for (rpc, request) in requests {
        let new = answer(&world.cri, "v1", rpc, &request).await;
        let old = answer(&world.cri, "v1alpha2", rpc, &request).await;
        assert_eq!(new, old, "{rpc} of {} bytes", request.len());
    }
    world.finish().await;
}

/// Requests that are good, or are about what there is not.
fn complete_requests(world: &World, running: &Running) -> Vec<(Rpc, Vec<u8>)> {
    let mut all = of_pods(world, running);
    all.extend(of_containers(&running.id));
    all.extend(of_images(world));
    all
}

fn encoded(rpc: Rpc, request: impl Message) -> (Rpc, Vec<u8>) {
    (rpc, request.encode_to_vec())
}

fn of_pods(world: &World, running: &Running) -> Vec<(Rpc, Vec<u8>)> {
    let pod_sandbox_id = || running.pod_id.clone();
    let (config, main) = (running.pod.config(), world.container("main"));
    let run = RunPodSandboxRequest {
        config: Some(config.clone()),
        ..RunPodSandboxRequest::default()
    };
    let status = PodSandboxStatusRequest {
        pod_sandbox_id: pod_sandbox_id(),
        verbose: false,
    };
    let create = CreateContainerRequest {
        pod_sandbox_id: pod_sandbox_id(),
        config: Some(main.shell("sleep 86400").config(&running.pod)),
        sandbox_config: Some(config),
    };
    let forward = PortForwardRequest {
        pod_sandbox_id: pod_sandbox_id(),
        port: vec![80],
    };
    let stats = PodSandboxStatsRequest {
        pod_sandbox_id: pod_sandbox_id(),
    };
    let update = UpdatePodSandboxResourcesRequest {
        pod_sandbox_id: pod_sandbox_id(),
        ..UpdatePodSandboxResourcesRequest::default()
    };
    let stop = StopPodSandboxRequest {
        pod_sandbox_id: "unknown".to_owned(),
    };
    let remove = RemovePodSandboxRequest {
        pod_sandbox_id: "unknown".to_owned(),
    };
    vec![
        encoded(Rpc::RunPodSandbox, run),
        encoded(Rpc::PodSandboxStatus, status),
        encoded(Rpc::CreateContainer, create),
        encoded(Rpc::PortForward, forward),
        encoded(Rpc::PodSandboxStats, stats),
        encoded(Rpc::UpdatePodSandboxResources, update),
        encoded(Rpc::StopPodSandbox, stop),
        encoded(Rpc::RemovePodSandbox, remove),
    ]
}

fn of_containers(id: &str) -> Vec<(Rpc, Vec<u8>)> {
    let container_id = || id.to_owned();
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let start = StartContainerRequest {
        container_id: container_id(),
    };
    let status = ContainerStatusRequest {
        container_id: container_id(),
        verbose: false,
    };
    let update = UpdateContainerResourcesRequest {
        container_id: container_id(),
        linux: Some(LinuxContainerResources {
            cpu_shares: 512,
            ..LinuxContainerResources::default()
        }),
        ..UpdateContainerResourcesRequest::default()
    };
    let reopen = ReopenContainerLogRequest {
        container_id: container_id(),
    };
    let exec_sync = ExecSyncRequest {
        container_id: container_id(),
        cmd: words(&["sh", "-c", "echo hello; exit 3"]),
        timeout: 10,
    };
    let exec = ExecRequest {
        container_id: container_id(),
        cmd: words(&["true"]),
        stdout: true,
        ..ExecRequest::default()
    };
    let attach = AttachRequest {
        container_id: container_id(),
        stdout: true,
        ..AttachRequest::default()
    };
    let stats = ContainerStatsRequest {
        container_id: container_id(),
    };
    let stop = StopContainerRequest {
        container_id: "unknown".to_owned(),
        timeout: 0,
    };
    let remove = RemoveContainerRequest {
        container_id: "unknown".to_owned(),
    };
    vec![
        encoded(Rpc::StartContainer, start),
        encoded(Rpc::ContainerStatus, status),
        encoded(Rpc::UpdateContainerResources, update),
        encoded(Rpc::ReopenContainerLog, reopen),
        encoded(Rpc::ExecSync, exec_sync),
        encoded(Rpc::Exec, exec),
        encoded(Rpc::Attach, attach),
        encoded(Rpc::ContainerStats, stats),
        encoded(Rpc::StopContainer, stop),
        encoded(Rpc::RemoveContainer, remove),
    ]
}

fn of_images(world: &World) -> Vec<(Rpc, Vec<u8>)> {
    let image = |name: &str| {
        Some(ImageSpec {
            image: name.to_owned(),
            ..ImageSpec::default()
        })
    };
    let status = ImageStatusRequest {
        image: image(&world.busybox),
        verbose: false,
    };
    let pull = PullImageRequest {
        image: image(&world.busybox),
        ..PullImageRequest::default()
    };
    let remove = RemoveImageRequest {
        image: image("registry.invalid/unknown:1"),
    };
    vec![
        encoded(Rpc::Version, request()),
        encoded(Rpc::ImageStatus, status),
        encoded(Rpc::PullImage, pull),
        encoded(Rpc::RemoveImage, remove),
    ]
}

/// What a client gets first.
#[derive(Debug, PartialEq)]
enum Answer {
    Message(String),
    /// A stream that ends without a message.
    Empty,
    /// A stream without a message so far.
    Silent,
    Error(Code, String),
}

async fn answer(cri: &Cri, version: &str, rpc: Rpc, request: &[u8]) -> Answer {
    // No call of the runtime has this word in its name.
    let service = if rpc.name().contains("Image") {
        "ImageService"
    } else {
        "RuntimeService"
    };
    let path = format!("/runtime.{version}.{service}/{rpc}");
    let limit = match rpc {
        Rpc::GetContainerEvents => Duration::from_millis(300),
        _ => Duration::from_secs(30),
    };
    match timeout(limit, cri.first_answer(&path, request.to_vec())).await {
        Ok(Ok(Some(message))) => Answer::Message(constant_part(rpc, &message)),
        Ok(Ok(None)) => Answer::Empty,
        Ok(Err(status)) => Answer::Error(status.code(), status.message().to_owned()),
        Err(_) => Answer::Silent,
    }
}

/// A message without what differs from call to call: tokens, times and figures.
fn constant_part(rpc: Rpc, message: &[u8]) -> String {
    match rpc {
        // All of these have a URL and nothing else.
        Rpc::Exec | Rpc::Attach | Rpc::PortForward => {
            let url = ExecResponse::decode(message).expect("an answer").url;
            url.rsplit_once('/').expect("a token").0.to_owned()
        }
        Rpc::PodSandboxStatus => numberless::<PodSandboxStatusResponse>(message),
        Rpc::ContainerStats => numberless::<ContainerStatsResponse>(message),
        Rpc::ListContainerStats => numberless::<ListContainerStatsResponse>(message),
        Rpc::StreamContainerStats => numberless::<StreamContainerStatsResponse>(message),
        Rpc::PodSandboxStats => numberless::<PodSandboxStatsResponse>(message),
        Rpc::ListPodSandboxStats => numberless::<ListPodSandboxStatsResponse>(message),
        Rpc::StreamPodSandboxStats => numberless::<StreamPodSandboxStatsResponse>(message),
        Rpc::ListPodSandboxMetrics => numberless::<ListPodSandboxMetricsResponse>(message),
        Rpc::StreamPodSandboxMetrics => numberless::<StreamPodSandboxMetricsResponse>(message),
        Rpc::ImageFsInfo => numberless::<ImageFsInfoResponse>(message),
        _ => format!("{message:?}"),
    }
}

/// A message as text, each number in it as `0`.
fn numberless<M: Message + Default + std::fmt::Debug>(message: &[u8]) -> String {
    let text = format!("{:?}", M::decode(message).expect("an answer"));
    let mut parts = text.split(|letter: char| letter.is_ascii_digit());
    let first = parts.next().unwrap_or_default().to_owned();
    parts
        .filter(|part| !part.is_empty())
        .fold(first, |text, part| text + "0" + part)
}

#[tokio::test]
async fn status_says_whether_runtime_and_network_are_ready() {
    let world = world!();
    for path in [
        "/runtime.v1.RuntimeService/Status",
        "/runtime.v1alpha2.RuntimeService/Status",
    ] {
        let answer: StatusResponse = world
            .cri
            .call(path, StatusRequest::default())
            .await
            .unwrap_or_else(|e| panic!("{path}: {e}"));
        let conditions = answer.status.expect("a status").conditions;
        for kind in ["RuntimeReady", "NetworkReady"] {
            let condition = conditions.iter().find(|condition| condition.r#type == kind);
            let condition = condition.unwrap_or_else(|| panic!("{path} has no {kind}"));
            assert!(condition.status, "{path}: {condition:?}");
        }
    }
    world.finish().await;
}

#[tokio::test]
async fn what_is_unknown_is_unimplemented() {
    skip_unless!(machine::can_run_pods());
    let mut node = Node::start().await;
    let cri = node.cri().await;
    for path in [
        "/runtime.v1.RuntimeService/Vershun",
        "/runtime.v2.RuntimeService/Version",
        "/nothing/Version",
    ] {
        let answer = cri.call::<_, VersionResponse>(path, request()).await;
        let status = answer.expect_err("an unknown method has no answer");
        assert_eq!(status.code(), Code::Unimplemented, "{path}: {status}");
    }
    drop(cri);
    assert!(node.is_peer() || node.stop().success());
}

/// What kubelets up to 1.27 send: gRPC's Go library called a server by its socket's path.
#[tokio::test]
async fn a_client_that_calls_the_server_by_its_path_is_served() {
    skip_unless!(machine::can_run_pods());
    let node = Node::start().await;
    let name = if node.is_peer() {
        "containerd"
    } else {
        "orlop"
    };
    let socket = node.socket().display().to_string();
    // As gRPC's library in C has it.
    let escaped = socket.trim_start_matches('/').replace('/', "%2F");
    for version in [
        "runtime.v1.RuntimeService",
        "runtime.v1alpha2.RuntimeService",
    ] {
        for authority in [&socket, &escaped] {
            let answer = by_hand(&socket, &format!("/{version}/Version"), authority);
            assert!(
                String::from_utf8_lossy(&answer).contains(name),
                "{authority}: {answer:?}"
            );
        }
    }
}

/// The bytes of the answer to a call without content, made frame by frame (RFC 9113).
fn by_hand(socket: &str, path: &str, authority: &str) -> Vec<u8> {
    use std::io::{Read as _, Write as _};

    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags, 0, 0, 0, stream]);
        frame.extend(payload);
        frame
    };
    let mut headers = vec![0x83, 0x86];
    for (name, value) in [(4, path), (1, authority), (31, "application/grpc")] {
        // A literal that is kept in the table, its name an index of the static one.
        headers.push(0x40 | name);
        headers.push(u8::try_from(value.len()).unwrap());
        headers.extend(value.as_bytes());
    }
    headers.extend(*b"\x40\x02te\x08trailers");
    let mut connection = std::os::unix::net::UnixStream::connect(socket).unwrap();
    connection
        .set_read_timeout(Some(std::time::Duration::from_secs(10)))
        .unwrap();
    let mut request = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    request.extend(frame(4, 0, 0, &[]));
    request.extend(frame(1, 4, 1, &headers));
    request.extend(frame(0, 1, 1, &[0; 5]));
    connection.write_all(&request).unwrap();
    let mut answer = Vec::new();
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut head).expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        connection.read_exact(&mut payload).expect("all of a frame");
        match (head[3], head[8]) {
            (3 | 7, _) => panic!("the server ends it: {head:?} {payload:?}"),
            (0, 1) => answer.extend(payload),
            // The trailers.
            (1, 1) if head[4] & 1 != 0 => return answer,
            _ => {}
        }
    }
}
