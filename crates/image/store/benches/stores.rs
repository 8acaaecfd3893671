//! A large image on the disk in both forms: as directories of files, and as files of EROFS. Prints how
//! long the image takes until it is ready, and how long twenty root file systems of it; fails where a
//! promise of SPECIFICATION.md is broken.
//!
//! `cargo bench -p orlop-image-store --bench stores [-- ROUNDS]`. `ORLOP_TEST_DIR` is on the disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark reports by panicking"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use orlop_image_store::rootfs::OverlayMount;
use orlop_image_store::{Config, Images, PullRequest, StoreForm};
use orlop_testkit::{Chance, Compression, ImageBuilder, Registry, Scratch};

/// Files of the image, and bytes of all of them.
const FILES: u64 = 28_000;
const BYTES: u64 = 667 << 20;
/// Root file systems that are made of it.
const CONTAINERS: u64 = 20;
/// Promised: of the time that directories take.
const OF_FILES: f64 = 0.6;
/// Promised: how many times as long the root file systems take.
const NO_SLOWER: f64 = 1.0;
/// What two measurements of the same may differ by.
const NOISE: f64 = 1.1;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok());
    let runtime = tokio::runtime::Runtime::new().expect("start a runtime");
    runtime.block_on(compare(rounds.unwrap_or(3)));
}

async fn compare(rounds: usize) {
    let registry = Registry::start();
    let image = ImageBuilder::new().archive(archive(), Compression::Gzip);
    registry.push(&image.build(), "large:1").await;
    let reference = registry.reference("large:1");
    let (mut directories, mut single) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        directories.push(measure(StoreForm::Files, &reference).await);
        single.push(measure(StoreForm::Erofs, &reference).await);
    }
    let mut broken = Vec::new();
    for (what, which, promised) in [("ready", 0, OF_FILES), ("containers", 1, NO_SLOWER * NOISE)] {
        let (as_files, as_one) = (least(&directories, which), least(&single, which));
        let ratio = as_one / as_files;
        println!("{what:<12} directories {as_files:>7.3} s, EROFS {as_one:>7.3} s: {ratio:.2}");
        if ratio > promised {
            broken.push(format!("{what}: {ratio:.2} of it, promised {promised}"));
        }
    }
    for promise in &broken {
        println!("BROKEN: {promise}");
    }
    std::process::exit(i32::from(!broken.is_empty()));
}

/// Seconds until the image is ready, and for the root file systems.
async fn measure(form: StoreForm, reference: &str) -> [f64; 2] {
    let scratch = Scratch::new();
    let mut config = Config::new(scratch.path("images"));
    config.store = form;
    let images = Images::open(config).await.expect("open the store");
    let start = Instant::now();
    let request = PullRequest {
        reference: reference.to_owned(),
        ..PullRequest::default()
    };
    let image = images.pull(request).await.expect("pull");
    let ready = start.elapsed();
    let start = Instant::now();
    let mut mounts = Vec::new();
    for number in 0..CONTAINERS {
        let lower = images.layers(&image.id).await.expect("its layers");
        let dir = |name: &str| {
            let dir = scratch.path(&format!("{name}{number}"));
            std::fs::create_dir(&dir).expect("make a directory");
            dir
        };
        let overlay = OverlayMount::new(lower, dir("upper"), dir("work"));
        mounts.push(overlay.mount().expect("mount"));
        let mount = mounts.last().expect("is there");
        assert!(inside(mount, "d0/f0").exists());
    }
    let containers = start.elapsed();
    drop(mounts);
    images.close().await;
    [ready, containers].map(|time: Duration| time.as_secs_f64())
}

fn inside(mount: &std::os::fd::OwnedFd, path: &str) -> std::path::PathBuf {
    use std::os::fd::AsRawFd;
    Path::new("/proc/self/fd")
        .join(mount.as_raw_fd().to_string())
        .join(path)
}

/// Files of all sizes that images have: most are small, and a few make the bytes.
fn archive() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut chance = Chance::of_seed(1);
    let large = FILES.div_ceil(100);
    let small = 6 << 10;
    let large_bytes = (BYTES - small * (FILES - large)) / large;
    // What neither compresses away nor takes long to make.
    let noise: Vec<u8> = (0..1 << 20)
        .map(|_| b'a' + chance.below(16) as u8)
        .collect();
    for number in 0..FILES {
        let size = match number % 100 {
            0 => large_bytes,
            _ => chance.below(2 * small as usize) as u64,
        };
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o644);
        header.set_mtime(1_700_000_000);
        let start = chance.below(noise.len() / 2);
        let content = std::io::Read::take(Endless(&noise[start..], 0), size);
        let path = format!("d{}/f{number}", number / 50);
        builder
            .append_data(&mut header, path, content)
            .expect("write an archive");
    }
    builder.into_inner().expect("finish an archive in memory")
}

/// The same again and again.
struct Endless<'a>(&'a [u8], usize);

impl std::io::Read for Endless<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let rest = &self.0[self.1..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.1 = (self.1 + count) % self.0.len();
        Ok(count)
    }
}

/// Others on the machine only add to it.
fn least(samples: &[[f64; 2]], which: usize) -> f64 {
    let values = samples.iter().map(|sample| sample[which]);
    values.fold(f64::INFINITY, f64::min)
}
