//! Killed in the middle: no image is corrupt afterwards, nothing leaks, and a pull goes on.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use orlop_image_store::{Config, Images};
use orlop_testkit::{Chance, Fault, FaultProxy, ImageBuilder, Layer, Registry, Rule, Scratch};

use crate::child::pulling;
use crate::support::{content, pull, until};

/// How many kills, unless the variable says otherwise; few enough for every run of the tests.
const KILLS: u64 = 12;
const KILLS_VARIABLE: &str = "ORLOP_CRASH_KILLS";

/// Names the seed of their moments: that of an earlier run, to repeat it. Else each run has another.
const SEED_VARIABLE: &str = "ORLOP_CHAOS_SEED";

#[tokio::test]
async fn a_kill_at_any_moment_leaves_a_store_that_goes_on() {
    let kills = std::env::var(KILLS_VARIABLE).map_or(KILLS, |text| text.parse().unwrap());
    let seed =
        std::env::var(SEED_VARIABLE).map_or_else(|_| rand::random(), |text| text.parse().unwrap());
    eprintln!("{SEED_VARIABLE}={seed}");
    let mut chance = Chance::of_seed(seed);
    let registry = Registry::start();
    let mut builder = ImageBuilder::new();
    for n in 0..4 {
        builder = builder.layer(Layer::new().noise(&format!("n{n}"), (5 + n) << 20));
    }
    let built = builder
        .layer(Layer::new().file("f", "whole", 0o644))
        .build();
    registry.push(&built, "app:1").await;
    let proxy = FaultProxy::before(registry.address());
    proxy.rule(Rule::on(
        "blobs/",
        Fault::Slow {
            bytes_per_second: 40 << 20,
        },
    ));
    let scratch = Scratch::new();
    let root = scratch.path("images");
    let mut finished = 0;
    for round in 0..kills {
        let mut child = pulling(&root, &proxy.reference("app:1"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Any moment, from before the first request to after the last.
        let most = if round % 2 == 0 { 500 } else { 1200 };
        let moment = 5_000 + chance.below(most * 1000 - 5_000) as u64;
        tokio::time::sleep(Duration::from_micros(moment)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let images = Images::open(Config::new(&root)).await.unwrap();
        assert_eq!(std::fs::read_dir(root.join("tmp")).unwrap().count(), 0);
        let verified = images.verify(false).await.unwrap();
        assert_eq!(verified.broken, [], "round {round}");
        let dirs = std::fs::read_dir(root.join("layers")).unwrap().count();
        assert_eq!(
            dirs, verified.sound,
            "round {round}: a layer that nobody knows"
        );
        for image in images.list() {
            assert_eq!(
                images.layers(&image.id).await.unwrap().len(),
                5,
                "round {round}"
            );
            finished += 1;
        }
        if round % 5 == 4 || !images.list().is_empty() {
            // From nothing again, so that all moments are met.
            images.remove(built.id()).await.unwrap();
        }
        images.close().await;
    }
    eprintln!("{kills} kills: {finished} after the end");
    let images = Images::open(Config::new(&root)).await.unwrap();
    let image = pull(&images, &proxy.reference("app:1")).await.unwrap();
    let mount = images.mount_read_only(&image.id).await.unwrap();
    assert_eq!(content(&mount, "f"), "whole");
    assert_eq!(std::fs::read_dir(root.join("ingest")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_killed_download_goes_on_where_it_was() {
    let registry = Registry::start();
    let built = ImageBuilder::new()
        .layer(Layer::new().noise("noise", 13 << 20))
        .build();
    registry.push(&built, "app:1").await;
    let proxy = FaultProxy::before(registry.address());
    let blob = format!("blobs/{}", built.layers[0].digest);
    // The first of four pieces comes whole, the others hardly begin.
    let trickle = Fault::Slow {
        bytes_per_second: 10,
    };
    proxy.rule(Rule::on(&blob, trickle).skip(1));
    let scratch = Scratch::new();
    let root = scratch.path("images");
    let mut child = pulling(&root, &proxy.reference("app:1"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("a piece is noted as whole", || {
        let entries = std::fs::read_dir(root.join("ingest")).into_iter().flatten();
        let mut maps = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "map"));
        maps.any(|map| std::fs::read_to_string(map).is_ok_and(|text| text.lines().count() > 1))
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    proxy.heal();
    let before = proxy.seen().len();
    let images = Images::open(Config::new(&root)).await.unwrap();
    pull(&images, &proxy.reference("app:1")).await.unwrap();
    let asked = proxy.seen().split_off(before);
    // What the killed one had asked for last may come in late, and is asked for again.
    let ranges: BTreeSet<&str> = asked
        .iter()
        .filter(|seen| seen.path.contains(&blob))
        .map(|seen| seen.headers["range"].to_str().unwrap())
        .collect();
    assert_eq!(ranges.len(), 3, "{ranges:?}");
    assert!(
        !ranges.iter().any(|range| range.starts_with("bytes=0-")),
        "{ranges:?}"
    );
}
