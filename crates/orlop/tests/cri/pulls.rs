//! Pulls on a registry's bad days.

use std::time::Duration;

use hyper::Method;
use orlop_cri::v1::{AuthConfig, ImageSpec, PullImageRequest};
use orlop_testkit::proxy::{Door, TokenRules};
use orlop_testkit::{
    BuiltImage, Fault, FaultProxy, ImageBuilder, Layer, Login, Registry, Rule, skip,
};
use tonic::{Code, Request};

use crate::world::{World, world};

/// An image in a registry behind a proxy, not pulled yet.
struct Behind {
    world: World,
    proxy: FaultProxy,
    image: BuiltImage,
    reference: String,
}

macro_rules! behind {
    () => {{
        let world = world!();
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
    let error = world
        .cri
        .pull(&reference)
        .await
        .expect_err("nobody may pull without a password");
    if !world.node.is_peer() {
        assert_eq!(error.code(), Code::Unauthenticated, "{error}");
    }
    let wrong = credentials(&Login::new(&login.user, "a guess"));
    let error = world
        .cri
        .pull_as(&reference, Some(wrong))
        .await
        .expect_err("a wrong password");
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
async fn tokens_that_wear_out_are_renewed() {
    let behind = behind!();
    if behind.world.node.is_peer() {
        skip!("containerd 1.6 asks for one token per pull and gives up when it expires");
    }
    let login = Login::new("me", "word");
    behind.proxy.guard(Door::Bearer(TokenRules {
        login: Some(login.clone()),
        requests_per_token: Some(2),
        ..TokenRules::default()
    }));
    behind
        .pull()
        .await
        .expect_err("nobody gets a token without a password");
    let auth = Some(credentials(&login));
    let pulled = behind
        .world
        .cri
        .pull_as(&behind.reference, auth)
        .await
        .expect("pull");
    assert_eq!(pulled, behind.image.id());
    assert!(
        behind.proxy.count(Method::GET, "/token") + behind.proxy.count(Method::POST, "/token") >= 2
    );
    behind.world.finish().await;
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    for fault in [
        Fault::Truncate { after: 50_000 },
        Fault::Disconnect,
        Fault::status(503),
        Fault::retry_after(429, 1),
    ] {
        let behind = behind!();
        if behind.world.node.is_peer() {
            skip!("containerd 1.6 gives up on the first failed download");
        }
        behind
            .proxy
            .rule(Rule::on(behind.layer(), fault.clone()).times(2));
        let pulled = behind
            .pull()
            .await
            .unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        assert_eq!(pulled, behind.image.id(), "{fault:?}");
        behind.world.finish().await;
    }
}

#[tokio::test]
async fn a_cut_download_goes_on_where_it_ended() {
    let behind = behind!();
    if behind.world.node.is_peer() {
        skip!("containerd 1.6 gives up on the first failed download");
    }
    behind
        .proxy
        .rule(Rule::on(behind.layer(), Fault::Truncate { after: 200_000 }).times(1));
    behind.pull().await.expect("pull");
    let ranges: Vec<_> = behind
        .proxy
        .seen()
        .iter()
        .filter(|seen| seen.path.contains(behind.layer()))
        .filter_map(|seen| seen.headers.get("range").cloned())
        .collect();
    let resumed = ranges.iter().any(|range| {
        range
            .to_str()
            .ok()
            .and_then(|range| {
                range
                    .strip_prefix("bytes=")?
                    .split('-')
                    .next()?
                    .parse()
                    .ok()
            })
            .is_some_and(|start: u64| start > 0)
    });
    assert!(resumed, "no request asked for the rest: {ranges:?}");
    behind.world.finish().await;
}

#[tokio::test]
async fn wrong_bytes_are_refused_and_leave_nothing() {
    let behind = behind!();
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
    let error = world
        .cri
        .pull(&reference)
        .await
        .expect_err("nobody listens there");
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
async fn identical_pulls_fetch_once() {
    let behind = behind!();
    if behind.world.node.is_peer() {
        skip!("containerd 1.6 resolves and locks per pull; it may fetch twice");
    }
    behind.proxy.rule(Rule::on(
        behind.layer(),
        Fault::Slow {
            bytes_per_second: 1_000_000,
        },
    ));
    let pulls = (0..20).map(|_| behind.pull());
    for pulled in futures_util::future::join_all(pulls).await {
        assert_eq!(pulled.expect("pull"), behind.image.id());
    }
    assert_eq!(behind.proxy.count(Method::GET, behind.layer()), 1);
    behind.world.finish().await;
}

#[tokio::test]
async fn a_pull_goes_on_when_its_client_has_left() {
    let behind = behind!();
    if behind.world.node.is_peer() {
        skip!("containerd 1.6 ends a pull with its client");
    }
    behind.proxy.rule(Rule::on(
        behind.layer(),
        Fault::Slow {
            bytes_per_second: 1_000_000,
        },
    ));
    let mut request = Request::new(PullImageRequest {
        image: Some(ImageSpec {
            image: behind.reference.clone(),
            ..ImageSpec::default()
        }),
        ..PullImageRequest::default()
    });
    request.set_timeout(Duration::from_millis(1));
    let error = behind
        .world
        .cri
        .images
        .clone()
        .pull_image(request)
        .await
        .expect_err("in 1 ms");
    // Depending on whose clock strikes first the client reports its own deadline as cancelled.
    assert!(
        matches!(error.code(), Code::DeadlineExceeded | Code::Cancelled),
        "{error}"
    );
    assert!(behind.absent().await, "1 ms was enough");
    let waited = async {
        while behind.absent().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited)
        .await
        .expect("the pull went on");
    behind.world.finish().await;
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
