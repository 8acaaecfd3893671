//! Layers that would take the node's memory for their decompression.

use std::time::{Duration, Instant};

use orlop_image_store::Error;
use orlop_testkit::process::memory;
use orlop_testkit::{
    Compression, Fault, FaultProxy, ImageBuilder, Layer, Registry, Rule, assert_contains,
};

use crate::support::{Place, pull, until};

const REGISTRIES: usize = 8;
const LAYERS: usize = 4;
/// What the pulls may add to the process's memory, in kB: the promise for a daemon that pulls.
const MORE: u64 = 64 << 10;

/// A zstd frame with a window of `1 << log` bytes: the zeros that fill it, as a few kilobytes, and then a megabyte as it
/// is. With how much of it comes at once.
fn hostile(log: u8, mark: usize) -> (Vec<u8>, usize) {
    const BLOCK: u32 = 128 << 10;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3];
    let block = |kind: u32, is_last: bool| {
        let header = BLOCK << 3 | kind << 1 | u32::from(is_last);
        header.to_le_bytes()[..3].to_vec()
    };
    for _ in 0..(1 << log) / BLOCK + 8 {
        frame.extend(block(1, false));
        frame.push(0);
    }
    let mut fast = 0;
    for number in 0..8 {
        // A download is unpacked by half a megabyte.
        if number == 5 {
            fast = frame.len();
        }
        frame.extend(block(0, number == 7));
        frame.resize(frame.len() + BLOCK as usize, 0);
    }
    // A skippable frame makes it a blob of its own.
    frame.extend([0x50, 0x2a, 0x4d, 0x18, 8, 0, 0, 0]);
    frame.extend((mark as u64).to_le_bytes());
    (frame, fast)
}

#[tokio::test]
async fn layers_with_large_windows_that_come_slowly_take_no_memory_and_hold_up_no_other_pull() {
    let registry = Registry::start();
    let place = Place::with(|config| config.progress_timeout = Duration::from_mins(2)).await;
    let honest = FaultProxy::before(registry.address());
    for name in ["quiet", "honest"] {
        let layer = |n| Layer::new().noise(&format!("{name}{n}"), 6_000_000);
        let built = (0..3).fold(ImageBuilder::new(), |image, n| {
            image.packed(layer(n), Compression::Zstd)
        });
        registry.push(&built.build(), &format!("{name}:1")).await;
    }
    let begin = Instant::now();
    place.pull(&honest.reference("quiet:1")).await.unwrap();
    let quiet = begin.elapsed();

    let mut image = ImageBuilder::new();
    let mut cuts = Vec::new();
    for n in 0..LAYERS {
        // Some as large as may be, some as large as ordinary ones.
        let (frame, fast) = hostile(if n % 2 == 0 { 25 } else { 23 }, n);
        image = image.archive(frame, Compression::Plain);
        cuts.push(fast);
    }
    let built = image.build();
    registry.push(&built, "hostile:1").await;
    // The proxies are in the same process: they hold what they send, and buffers of their connections do.
    let sent = built.layers.iter().map(|layer| layer.bytes.len());
    let sent = (3 * REGISTRIES * sent.sum::<usize>()) as u64 >> 10;
    let before = memory(std::process::id(), "RssAnon:") + sent;
    let mut proxies = Vec::new();
    for _ in 0..REGISTRIES {
        let proxy = FaultProxy::before(registry.address());
        for (layer, fast) in built.layers.iter().zip(&cuts) {
            let fault = Fault::Stall {
                after: *fast,
                hold: Duration::from_mins(1),
            };
            proxy.rule(Rule::on(&format!("blobs/{}", layer.digest), fault));
        }
        let (images, name) = (place.images.clone(), proxy.reference("hostile:1"));
        tokio::spawn(async move { pull(&images, &name).await });
        proxies.push(proxy);
    }
    until("all hostile layers are on their way", || {
        let is_asked = |proxy: &FaultProxy| {
            let mut layers = built.layers.iter();
            layers.all(|layer| {
                let path = format!("blobs/{}", layer.digest);
                proxy.count(http::Method::GET, &path) > 0
            })
        };
        proxies.iter().all(is_asked)
    })
    .await;
    // Time enough to fill every window.
    let mut most = 0;
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        most = most.max(memory(std::process::id(), "RssAnon:"));
    }
    assert!(most < before + MORE, "{before} kB, then {most} kB");

    let begin = Instant::now();
    place.pull(&honest.reference("honest:1")).await.unwrap();
    let beside = begin.elapsed();
    let limit = 2 * quiet + Duration::from_secs(1);
    println!("{before} kB, then {most} kB; {quiet:?}, beside the hostile ones {beside:?}");
    assert!(beside < limit, "{quiet:?}, then {beside:?}");
    place.images.close().await;
}

#[tokio::test]
async fn a_layer_whose_window_exceeds_the_memory_is_refused_with_size_limit_and_key() {
    let registry = Registry::start();
    let place = Place::open().await;
    let (frame, _) = hostile(27, 0);
    let image = ImageBuilder::new().archive(frame, Compression::Plain);
    registry.push(&image.build(), "large:1").await;
    let error = place.pull(&registry.reference("large:1")).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::InvalidImage { .. }), "{error:?}");
    let text = error.to_string();
    assert_contains!(text, "134217728", "41943040", "images.unpack_memory");
}
