//! Pull and unpack from a local registry, side by side with Debian's containerd
//! (`ctr image pull`), all in memory. Prints seconds and peak memory of each.
//!
//! `cargo bench -p orlop-image [-- ROUNDS]`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark reports by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orlop_image::{Config, Images, PullRequest};
use orlop_testkit::{Compression, ImageBuilder, Registry, Scratch};

/// What a large image has uncompressed.
const LARGE: u64 = 360 << 20;
const LAYERS: u64 = 20;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Runtime::new().expect("start a runtime");
    if let [_, command, root, reference] = &arguments[..]
        && command == "pull"
    {
        // In a process of its own, so that its memory is the pull's alone.
        runtime.block_on(pull(Path::new(root), reference));
        return;
    }
    let rounds = arguments
        .iter()
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(3);
    runtime.block_on(compare(rounds));
}

async fn compare(rounds: usize) {
    let registry = Registry::start();
    let files = files_of_this_machine(LARGE);
    let bytes = |files: &[PathBuf]| -> u64 {
        files
            .iter()
            .filter_map(|file| file.metadata().ok())
            .map(|look| look.len())
            .sum()
    };
    println!("{} files, {} MB", files.len(), bytes(&files) >> 20);
    let large = ImageBuilder::new()
        .archive(archive(&files), Compression::Gzip)
        .build();
    registry.push(&large, "large:1").await;
    drop(large);
    let mut many = ImageBuilder::new();
    for part in files.chunks(files.len().div_ceil(usize::try_from(LAYERS).unwrap())) {
        many = many.archive(archive(part), Compression::Gzip);
    }
    registry.push(&many.build(), "many:1").await;
    let containerd = Containerd::start();
    for name in ["large:1", "many:1"] {
        let reference = registry.reference(name);
        let (mut ours, mut theirs, mut memory) = (Vec::new(), Vec::new(), 0);
        for round in 0..=rounds {
            let (seconds, kilobytes) = pull_in_process(&reference);
            let other = containerd
                .as_ref()
                .map(|containerd| containerd.pull(&reference));
            // The first round fills caches for both.
            if round > 0 {
                ours.push(seconds);
                theirs.extend(other);
                memory = memory.max(kilobytes);
            }
        }
        let (mine, peers) = (median(&mut ours), median(&mut theirs));
        println!(
            "{name}: orlop {mine:.2} s (peak {} MB), containerd {peers:.2} s, {:.2} times as fast",
            memory >> 10,
            peers / mine
        );
    }
}

/// Pulls once and prints seconds and peak memory in kB.
async fn pull(root: &Path, reference: &str) {
    let start = Instant::now();
    let images = Images::open(Config::new(root))
        .await
        .expect("open the store");
    let request = PullRequest {
        reference: reference.to_owned(),
        auth: None,
    };
    images.pull(request).await.expect("pull");
    let seconds = start.elapsed().as_secs_f64();
    images.close().await;
    let status = std::fs::read_to_string("/proc/self/status").expect("read the status");
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("has a peak");
    println!("{seconds} {}", peak.trim().trim_end_matches(" kB"));
}

fn pull_in_process(reference: &str) -> (f64, u64) {
    let scratch = Scratch::new();
    let output = Command::new(std::env::current_exe().expect("know myself"))
        .arg("pull")
        .arg(scratch.path("images"))
        .arg(reference)
        .stderr(Stdio::inherit())
        .output()
        .expect("run myself");
    let text = String::from_utf8(output.stdout).expect("print text");
    let (seconds, kilobytes) = text.trim().split_once(' ').expect("print two numbers");
    (
        seconds.parse().expect("print a number"),
        kilobytes.parse().expect("print a number"),
    )
}

/// A private containerd.
struct Containerd {
    process: Child,
    socket: PathBuf,
    _scratch: Scratch,
}

impl Containerd {
    fn start() -> Option<Self> {
        let scratch = Scratch::new();
        let socket = scratch.run().join("c.sock");
        let config = scratch.path("config.toml");
        let text = "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n";
        std::fs::write(&config, text).ok()?;
        let process = Command::new("containerd")
            .args(["--log-level", "error", "--config"])
            .arg(&config)
            .arg("--root")
            .arg(scratch.path("root"))
            .arg("--state")
            .arg(scratch.run().join("state"))
            .arg("--address")
            .arg(&socket)
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        for _ in 0..100 {
            if socket.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(Self {
            process,
            socket,
            _scratch: scratch,
        })
    }

    fn pull(&self, reference: &str) -> f64 {
        let run = |arguments: &[&str]| {
            let status = Command::new("ctr")
                .arg("--address")
                .arg(&self.socket)
                .args(arguments)
                .stdout(Stdio::null())
                .status()
                .expect("run ctr");
            assert!(status.success(), "ctr {arguments:?}");
        };
        let start = Instant::now();
        run(&["image", "pull", "--plain-http", reference]);
        let seconds = start.elapsed().as_secs_f64();
        run(&["image", "rm", "--sync", reference]);
        run(&["content", "prune", "references"]);
        seconds
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Programs, libraries and data, as images have them.
fn files_of_this_machine(bytes: u64) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![
        PathBuf::from("/usr/lib"),
        PathBuf::from("/usr/share"),
        PathBuf::from("/usr/bin"),
    ];
    let mut total = 0;
    while let Some(dir) = dirs.pop() {
        let mut entries: Vec<_> = std::fs::read_dir(&dir)
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let Ok(look) = std::fs::symlink_metadata(entry.path()) else {
                continue;
            };
            if look.is_dir() {
                dirs.push(entry.path());
            } else if look.is_file() && look.len() < 32 << 20 {
                total += look.len();
                found.push(entry.path());
                if total >= bytes {
                    return found;
                }
            }
        }
    }
    found
}

fn archive(files: &[PathBuf]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for file in files {
        let name = file.strip_prefix("/").expect("paths are absolute");
        builder
            .append_path_with_name(file, name)
            .expect("read a file");
    }
    builder.into_inner().expect("finish an archive in memory")
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
