//! Artifacts as clients see them: pulled, listed and mounted as images are, and nothing to run.

use orlop_cri_api::v1::{ImageSpec, ImageStatusRequest, Mount};
use orlop_testkit::BuiltImage;
use orlop_testkit::image::ArtifactBlob;
use serde_json::Value;
use tonic::Code;

use crate::world::{World, ours};

const KIND: &str = "application/vnd.example.model";

fn model() -> BuiltImage {
    let blobs = vec![
        ArtifactBlob::file("weights/0.bin", b"heavy"),
        ArtifactBlob::file("config.json", b"{}"),
    ];
    BuiltImage::artifact(KIND, blobs)
}

fn spec(image: &str) -> ImageSpec {
    ImageSpec {
        image: image.to_owned(),
        ..ImageSpec::default()
    }
}

async fn info(world: &World, name: &str) -> Value {
    let request = ImageStatusRequest {
        image: Some(spec(name)),
        verbose: true,
    };
    let answer = world.cri.images().image_status(request).await;
    let answer = answer.expect("status").into_inner();
    serde_json::from_str(&answer.info["info"]).expect("JSON")
}

#[tokio::test]
async fn an_artifact_is_mounted_and_not_run() {
    let world = ours!();
    let client = world.node.client();
    let built = model();
    let name = world.image(&built, "model:1").await;
    let known = world.cri.image(&name).await.expect("status");
    let known = known.expect("it is there");
    assert_eq!(known.id, built.digest());
    assert_eq!(known.size, 7);
    assert_eq!(known.repo_tags, std::slice::from_ref(&name));
    let told = info(&world, &name).await;
    assert_eq!(told["artifactType"], KIND);
    assert_eq!(told["artifactManifest"]["artifactType"], KIND);
    assert_eq!(told["imageSpec"], Value::Null);
    assert!(client.out(&["images"]).contains("model"));

    let script = "cat /model/weights/0.bin /model/config.json; touch /model/x 2> /dev/null || echo read-only";
    let volume = Mount {
        container_path: "/model".to_owned(),
        readonly: true,
        image: Some(spec(built.digest())),
        ..Mount::default()
    };
    let reads = world.container("main").shell(script);
    let reads = reads.with(|config| config.mounts.push(volume));
    let (code, text) = world.output("reads", &reads).await;
    assert_eq!((code, text.as_str()), (0, "heavy{}read-only\n"));

    let pod = world.node.pod("runs");
    let pod_id = world.run_pod(&pod).await;
    let runs = orlop_testkit::ContainerSpec::new("main", &name).shell("true");
    let error = world.cri.create(&pod_id, &pod, &runs).await;
    let error = error.expect_err("there is nothing to run");
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    let reason = format!("is an artifact ({KIND})");
    assert!(error.message().contains(&reason), "{error}");

    let removed = client.run(&["rmi", &name]);
    assert!(removed.status.success(), "{removed:?}");
    assert!(world.cri.image(&name).await.expect("status").is_none());
    world.finish().await;
}
