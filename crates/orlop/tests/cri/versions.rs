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
