//! Pulls on a registry's bad days.

use std::time::Duration;

use hyper::Method;
use orlop_cri_api::v1::{AuthConfig, ImageSpec, PullImageRequest};
use orlop_testkit::proxy::{Door, TokenRules};
use orlop_testkit::{BuiltImage, Fault, FaultProxy, ImageBuilder, Layer, Login, Registry, Rule};
use tonic::Code;

use crate::world::{World, world};

/// An image in a registry behind a proxy, not pulled yet.
struct Behind {
    world: World,
    proxy: FaultProxy,
    image: BuiltImage,
    reference: String,
}

macro_rules! behind {
    ($world:expr) => {{
        let world = $world;
        let image = ImageBuilder::new()
            .layer(Layer::new().noise("noise", 300_000))
            .layer(Layer::new().noise("more", 100_000))
            .build();
        world.registry.push(&image, "faulty:1").await;
        let proxy = FaultProxy::before(world.registry.address());
        let reference = proxy.reference("faulty:1");
        Behind {
            world,
            proxy,
            image,
            reference,
        }
    }};
}

mod ours;

impl Behind {
    fn layer(&self) -> &str {
        &self.image.layers[0].digest
    }

    async fn pull(&self) -> Result<String, tonic::Status> {
        self.world.cri.pull(&self.reference).await
    }

    async fn absent(&self) -> bool {
        self.world
            .cri
            .image(&self.reference)
            .await
            .expect("no error")
            .is_none()
    }
}

fn credentials(login: &Login) -> AuthConfig {
    AuthConfig {
        username: login.user.clone(),
        password: login.password.clone(),
        ..AuthConfig::default()
    }
}

#[tokio::test]
async fn a_password_opens_a_closed_registry() {
    let world = world!();
    let registry = Registry::start_with_login();
    let login = registry.login().expect("asks for a login").clone();
    let image = ImageBuilder::new().marked("closed").build();
    let reference = registry.push(&image, "closed:1").await;
    let error = world.cri.pull(&reference).await;
    let error = error.expect_err("nobody may pull without a password");
    if !world.node.is_peer() {
        assert_eq!(error.code(), Code::Unauthenticated, "{error}");
    }
    let wrong = credentials(&Login::new(&login.user, "a guess"));
    let error = world.cri.pull_as(&reference, Some(wrong)).await;
    let error = error.expect_err("a wrong password");
    assert!(
        !error.message().contains("a guess"),
        "the password is in the error: {error}"
    );
    let auth = Some(credentials(&login));
    assert_eq!(
        world.cri.pull_as(&reference, auth).await.expect("pull"),
        image.id()
    );
    assert!(
        !world.node.log().contains(&login.password),
        "the password is in the log"
    );
    world.finish().await;
}

#[tokio::test]
async fn wrong_bytes_are_refused_and_leave_nothing() {
    let behind = behind!(world!());
    behind
        .proxy
        .rule(Rule::on(behind.layer(), Fault::Corrupt { offset: 1000 }));
    let error = behind.pull().await.expect_err("the bytes are wrong");
    assert_ne!(error.code(), Code::Ok);
    assert!(behind.absent().await, "an image with wrong bytes is listed");
    behind.proxy.heal();
    assert_eq!(
        behind.pull().await.expect("the next pull is clean"),
        behind.image.id()
    );
    behind.world.finish().await;
}

#[tokio::test]
async fn a_registry_that_is_down_is_unavailable() {
    let world = world!();
    let gone = FaultProxy::alone();
    let reference = gone.reference("any:1");
    drop(gone);
    let error = world.cri.pull(&reference).await;
    let error = error.expect_err("nobody listens there");
    if !world.node.is_peer() {
        // The kubelet looks for this word to tell its reason from others, and finds it under no
        // other code.
        assert_eq!(error.code(), Code::Unknown, "{error}");
        assert!(
            error.message().starts_with("RegistryUnavailable: "),
            "{error}"
        );
    }
    world.finish().await;
}

#[tokio::test]
async fn hostile_manifests_are_refused() {
    let world = world!();
    let proxy = FaultProxy::alone();
    let oci = "application/vnd.oci.image.manifest.v1+json";
    let schema_1 = "application/vnd.docker.distribution.manifest.v1+prettyjws";
    let digest = format!("sha256:{}", "0".repeat(64));
    let huge = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": oci,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "size": 10, "digest": digest,
        },
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "size": 10_000_000_000_000_u64, "digest": digest,
        }],
    });
    for (name, kind, body) in [
        ("rubbish", oci, "no JSON at all".to_owned()),
        ("empty", oci, "{}".to_owned()),
        ("huge", oci, huge.to_string()),
        (
            "old",
            schema_1,
            r#"{"schemaVersion":1,"name":"old","tag":"1"}"#.to_owned(),
        ),
        (
            "long",
            oci,
            format!("{{\"x\":\"{}\"}}", "y".repeat(20 << 20)),
        ),
    ] {
        proxy.rule(Rule::on(
            &format!("/v2/{name}/manifests/"),
            Fault::content(kind, body),
        ));
        let reference = proxy.reference(&format!("{name}:1"));
        let error = world.cri.pull(&reference).await.expect_err(name);
        assert!(
            error.message().contains(name),
            "the image is not named: {error}"
        );
        assert_eq!(
            world.cri.image(&reference).await.expect("no error"),
            None,
            "{name}"
        );
    }
    world.finish().await;
}
