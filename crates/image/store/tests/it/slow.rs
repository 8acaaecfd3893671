//! Registries that send a byte now and then: they cost their own pulls time, and nobody else's.

use std::time::{Duration, Instant};

use orlop_image_store::{Error, Images};
use orlop_testkit::{Fault, FaultProxy, ImageBuilder, Layer, Registry, Rule};

use crate::support::{Place, pull, until};

/// More pulls than there are connections, or layers unpacked at once.
const PULLS: usize = 9;
const TRICKLE: Fault = Fault::Slow {
    bytes_per_second: 10,
};

/// Pushes an image of one layer of its own, and has the proxy trickle that layer.
async fn push_slow(registry: &Registry, proxy: &FaultProxy, name: &str) -> String {
    let built = ImageBuilder::new()
        .layer(Layer::new().noise(name, 100_000))
        .build();
    registry.push(&built, &format!("{name}:1")).await;
    let blob = format!("blobs/{}", built.layers[0].digest);
    proxy.rule(Rule::on(&blob, TRICKLE));
    blob
}

/// Pulls an image of another registry while the slow one lets others wait: within four times what such a pull
/// takes on a quiet node, and a second.
async fn pull_at_once(images: &Images, name: &str, quiet: Duration) {
    let limit = 4 * quiet + Duration::from_secs(1);
    let pulled = tokio::time::timeout(limit, pull(images, name)).await;
    let pulled = pulled.unwrap_or_else(|_| panic!("{name} takes more than {limit:?}"));
    pulled.unwrap();
}

/// Pushes an image of one small layer.
async fn push_small(registry: &Registry, name: &str) {
    let layer = Layer::new().file("f", name, 0o644);
    let built = ImageBuilder::new().layer(layer).build();
    registry.push(&built, name).await;
}

/// How long a small pull takes while nothing else is pulled.
async fn quiet_pull(place: &Place, registry: &Registry, proxy: &FaultProxy) -> Duration {
    push_small(registry, "quiet:1").await;
    let begin = Instant::now();
    place.pull(&proxy.reference("quiet:1")).await.unwrap();
    begin.elapsed()
}

#[tokio::test]
async fn a_slow_registry_keeps_nobody_from_pulling_from_another() {
    let registry = Registry::start();
    let (slow, other) = (
        FaultProxy::before(registry.address()),
        FaultProxy::before(registry.address()),
    );
    let place = Place::open().await;
    let quiet = quiet_pull(&place, &registry, &other).await;
    let mut blobs = Vec::new();
    for n in 0..PULLS {
        blobs.push(push_slow(&registry, &slow, &format!("slow{n}")).await);
        let (images, name) = (place.images.clone(), slow.reference(&format!("slow{n}:1")));
        tokio::spawn(async move { pull(&images, &name).await });
    }
    // As many as one host may have, whatever they are.
    until("the slow registry's connections are in use", || {
        let asked = |blob: &String| slow.count(http::Method::GET, blob);
        blobs.iter().map(asked).sum::<usize>() >= 5
    })
    .await;
    push_small(&registry, "small:1").await;
    // The second has the very layers that the slow registry is holding back.
    for name in ["small:1", "slow0:1"] {
        pull_at_once(&place.images, &other.reference(name), quiet).await;
    }
    place.images.close().await;
}

#[tokio::test]
async fn a_pull_of_many_slow_layers_lets_another_from_its_registry_go_on() {
    let registry = Registry::start();
    let proxy = FaultProxy::before(registry.address());
    let place = Place::open().await;
    let quiet = quiet_pull(&place, &registry, &proxy).await;
    let mut image = ImageBuilder::new();
    for n in 0..100 {
        image = image.layer(Layer::new().noise(&format!("slow{n}"), 100_000));
    }
    let built = image.build();
    registry.push(&built, "slow:1").await;
    let blobs: Vec<String> = built
        .layers
        .iter()
        .map(|layer| format!("blobs/{}", layer.digest))
        .collect();
    for blob in &blobs {
        proxy.rule(Rule::on(blob, TRICKLE));
    }
    let (images, name) = (place.images.clone(), proxy.reference("slow:1"));
    let slow = tokio::spawn(async move { pull(&images, &name).await });
    // Where one pull may not have all, as many as it may.
    until("the slow layers are asked for", || {
        let asked = |blob: &String| proxy.count(http::Method::GET, blob);
        blobs.iter().map(asked).sum::<usize>() >= 4
    })
    .await;
    push_small(&registry, "small:1").await;
    pull_at_once(&place.images, &proxy.reference("small:1"), quiet).await;
    assert!(!slow.is_finished());
    place.images.close().await;
}

#[tokio::test]
async fn a_download_that_trickles_is_given_up_by_name() {
    let registry = Registry::start();
    let proxy = FaultProxy::before(registry.address());
    push_slow(&registry, &proxy, "slow").await;
    let place = Place::with(|config| {
        config.progress_timeout = Duration::from_secs(2);
        config.retries = 0;
    })
    .await;
    let name = proxy.reference("slow:1");
    let error = place.pull(&name).await.unwrap_err();
    assert!(
        matches!(error, Error::RegistryUnavailable { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    orlop_testkit::assert_contains!(text, "images.min_speed", &proxy.host());
    proxy.heal();
    place.pull(&name).await.unwrap();
}

#[tokio::test]
async fn a_pull_that_nobody_waits_for_ends_and_one_with_a_waiter_goes_on() {
    let registry = Registry::start();
    let proxy = FaultProxy::before(registry.address());
    let blob = push_slow(&registry, &proxy, "slow").await;
    let place = Place::with(|config| config.abandon_after = Duration::from_millis(200)).await;
    let caller = || {
        let (images, name) = (place.images.clone(), proxy.reference("slow:1"));
        tokio::spawn(async move { pull(&images, &name).await })
    };
    let (first, second) = (caller(), caller());
    until("the layer is asked for", || {
        proxy.count(http::Method::GET, &blob) > 0
    })
    .await;
    first.abort();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(place.images.pulls().len(), 1);
    second.abort();
    until("the pull has ended", || place.images.pulls().is_empty()).await;
    // Who comes later starts anew.
    proxy.heal();
    caller().await.unwrap().unwrap();
}
