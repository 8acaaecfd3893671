//! Who answers, on both versions of the interface.

use orlop_cri::v1::{StatusRequest, StatusResponse, VersionRequest, VersionResponse};
use orlop_testkit::{Node, machine, skip_unless};
use tonic::Code;

use crate::world::world;

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
    assert_eq!(v1.runtime_api_version, "v1");
    assert_eq!(old.runtime_name, v1.runtime_name);
    assert_eq!(old.runtime_version, v1.runtime_version);
    drop(cri);
    assert!(node.is_peer() || node.stop().success());
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
