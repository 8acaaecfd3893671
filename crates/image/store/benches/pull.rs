//! Pull and unpack from a local registry, side by side with Debian's containerd
//! (`ctr image pull`), all in memory. Prints seconds, processor time and peak memory of each;
//! fails where a promise of SPECIFICATION.md is broken, or containerd is missing.
//!
//! `cargo bench -p orlop-image-store --bench pull [-- ROUNDS]`
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "benchmarks fail by panicking, and read what they wrote themselves"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orlop_image_store::{Config, Images, PullRequest};
use orlop_testkit::{Compression, ImageBuilder, Registry, Scratch};

/// What a large image has uncompressed.
const LARGE: u64 = 360 << 20;
const LAYERS: usize = 20;
/// The kernel's unit of times per second, the same on all that we run on.
const TICKS: f64 = 100.0;
/// Promised: so many times as fast as the reference.
const FASTER: f64 = 2.0;
/// How many times as large another image is, which must take no more memory.
const LARGER: usize = 3;
/// Promised: the most memory while pulling, in kB.
const PEAK_KB: u64 = 64 << 10;

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
    let bytes: u64 = files
        .iter()
        .filter_map(|file| file.metadata().ok())
        .map(|look| look.len())
        .sum();
    println!("{} files, {} MB", files.len(), bytes >> 20);
    let one = ImageBuilder::new()
        .archive(archive(&files, 1), Compression::Gzip)
        .build();
    registry.push(&one, "large:1").await;
    drop(one);
    let mut many = ImageBuilder::new();
    for part in files.chunks(files.len().div_ceil(LAYERS)) {
        many = many.archive(archive(part, 1), Compression::Gzip);
    }
    registry.push(&many.build(), "many:1").await;
    let Some(containerd) = Containerd::start() else {
        eprintln!("containerd does not start: there is nothing to compare with");
        std::process::exit(1);
    };
    let mut broken = Vec::new();
    for name in ["large:1", "many:1"] {
        let reference = registry.reference(name);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..=rounds {
            let (mine, other) = (pull_in_process(&reference), containerd.pull(&reference));
            // The first round fills caches for both.
            if round > 0 {
                ours.push(mine);
                theirs.push(other);
            }
        }
        let row = |who: &str, samples: &[Sample]| {
            println!(
                "{name:<8} {who:<11} {:>6.2} s {:>6.2} s of CPU {:>5} MB at most",
                median(samples, |sample| sample.seconds),
                median(samples, |sample| sample.cpu),
                samples.iter().map(|s| s.peak_kb).max().unwrap_or(0) >> 10,
            );
        };
        row("orlop", &ours);
        row("containerd", &theirs);
        let ratio = |what: fn(&Sample) -> f64| median(&theirs, what) / median(&ours, what);
        let (faster, cheaper) = (ratio(|s| s.seconds), ratio(|s| s.cpu));
        println!("{name:<8} {faster:.2} times as fast, for 1/{cheaper:.2} of the CPU");
        if faster < FASTER {
            broken.push(format!(
                "{name}: {faster:.2} times as fast, promised {FASTER}"
            ));
        }
        let peak = ours.iter().map(|sample| sample.peak_kb).max().unwrap_or(0);
        broken.extend(too_much(name, peak));
    }
    let larger = ImageBuilder::new()
        .archive(archive(&files, LARGER), Compression::Gzip)
        .build();
    registry.push(&larger, "larger:1").await;
    drop(larger);
    let peak = pull_in_process(&registry.reference("larger:1")).peak_kb;
    println!("{LARGER} times as large: {} MB at most", peak >> 10);
    broken.extend(too_much("larger:1", peak));
    for promise in &broken {
        println!("BROKEN: {promise}");
    }
    std::process::exit(i32::from(!broken.is_empty()));
}

/// What is wrong with a peak, in kB.
fn too_much(name: &str, peak: u64) -> Option<String> {
    let (found, promised) = (peak >> 10, PEAK_KB >> 10);
    (peak > PEAK_KB).then(|| format!("{name}: {found} MB at most, promised {promised}"))
}

/// One pull.
struct Sample {
    seconds: f64,
    /// Seconds of processor time, user's and system's.
    cpu: f64,
    /// The most memory, in kB.
    peak_kb: u64,
}

/// Pulls once and prints seconds.
async fn pull(root: &Path, reference: &str) {
    let start = Instant::now();
    let images = Images::open(Config::new(root))
        .await
        .expect("open the store");
    let request = PullRequest {
        reference: reference.to_owned(),
        ..PullRequest::default()
    };
    images.pull(request).await.expect("pull");
    let seconds = start.elapsed().as_secs_f64();
    images.close().await;
    println!("{seconds} {} {}", cpu("self"), peak("self"));
}

/// Processor time that a process has taken, in seconds.
fn cpu(process: &str) -> f64 {
    times(process, 11)
}

/// Two neighbouring times (proc(5), "stat"), counted from the field after the name.
fn times(process: &str, field: usize) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("read its times");
    let fields = text.rsplit(')').next().expect("has fields after its name");
    let ticks: f64 = fields
        .split_whitespace()
        .skip(field)
        .take(2)
        .map(|field| field.parse::<f64>().expect("a number of ticks"))
        .sum();
    ticks / TICKS
}

/// The most memory that a process has had, in kB.
fn peak(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("read");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("has a peak");
    let number = line.trim().trim_end_matches(" kB");
    number.parse().expect("a number of kilobytes")
}

fn pull_in_process(reference: &str) -> Sample {
    let scratch = Scratch::new();
    let output = Command::new(std::env::current_exe().expect("know myself"))
        .arg("pull")
        .arg(scratch.path("images"))
        .arg(reference)
        .stderr(Stdio::inherit())
        .output()
        .expect("run myself");
    let text = String::from_utf8(output.stdout).expect("print text");
    let numbers: Vec<f64> = text
        .split_whitespace()
        .map(|word| word.parse().expect("print numbers"))
        .collect();
    Sample {
        seconds: numbers[0],
        cpu: numbers[1],
        peak_kb: numbers[2] as u64,
    }
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
        let started = Self {
            process,
            socket,
            _scratch: scratch,
        };
        started.socket.exists().then_some(started)
    }

    fn pull(&self, reference: &str) -> Sample {
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
        let process = self.process.id().to_string();
        let (daemon, client, start) = (cpu(&process), client_cpu(), Instant::now());
        run(&["image", "pull", "--plain-http", reference]);
        let sample = Sample {
            seconds: start.elapsed().as_secs_f64(),
            cpu: cpu(&process) - daemon + client_cpu() - client,
            peak_kb: peak(&process),
        };
        run(&["image", "rm", "--sync", reference]);
        run(&["content", "prune", "references"]);
        sample
    }
}

/// What commands that have ended took; only `ctr` runs while this is watched.
fn client_cpu() -> f64 {
    times("self", 13)
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

/// The files, so many times, each time in another directory.
fn archive(files: &[PathBuf], times: usize) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for time in 0..times {
        let dir = PathBuf::from(format!("copy{time}"));
        for file in files {
            let name = file.strip_prefix("/").expect("paths are absolute");
            builder
                .append_path_with_name(file, dir.join(name))
                .expect("read a file");
        }
    }
    builder.into_inner().expect("finish an archive in memory")
}

fn median(samples: &[Sample], what: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(what).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
