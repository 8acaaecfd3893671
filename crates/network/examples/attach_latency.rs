//! Measures ADD and DEL of a bridge network, in process and by the plugins'
//! programs, on a node of its own:
//! `attach_latency [ROUNDS] [PODS THERE ALREADY] [PLUGIN DIRECTORY]`.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orlop_network::{Attachment, Config, InProcess, Networks, netns};

type Failure = Box<dyn std::error::Error>;

const CONF: &str = r#"{
    "cniVersion": "1.0.0", "name": "bench",
    "plugins": [
        {"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": MASQ, "ipam": {
            "type": "host-local", "dataDir": "DIR/addresses", "subnet": "10.66.0.0/16",
            "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": true}}
    ]}"#;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(100), |text| text.parse())?;
    let there: usize = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let plugins = PathBuf::from(
        arguments
            .next()
            .unwrap_or_else(|| "/usr/lib/cni".to_owned()),
    );
    netns::leave_for_new()?;
    let runtime = tokio::runtime::Runtime::new()?;
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>9}",
        "median (90 %) of", "ADD ms", "", "DEL ms", ""
    );
    for masquerade in [false, true] {
        for mode in [InProcess::Always, InProcess::Never] {
            let measured = runtime.block_on(measure(mode, masquerade, rounds, there, &plugins))?;
            let what = match mode {
                InProcess::Always => "in process",
                _ => "programs",
            };
            let what = format!("{what}{}", if masquerade { ", masquerading" } else { "" });
            let [add, del] = measured.map(|mut times| {
                times.sort_unstable();
                [times[times.len() / 2], times[times.len() * 9 / 10]]
            });
            let ms = |time: Duration| format!("{:.3}", time.as_secs_f64() * 1e3);
            println!(
                "{what:<34} {:>9} {:>9} {:>9} {:>9}",
                ms(add[0]),
                ms(add[1]),
                ms(del[0]),
                ms(del[1])
            );
        }
    }
    Ok(())
}

/// The times of ADD and of DEL, pods being attached one after the other.
async fn measure(
    mode: InProcess,
    masquerade: bool,
    rounds: usize,
    there: usize,
    plugins: &Path,
) -> Result<[Vec<Duration>; 2], Failure> {
    let dir = Directory(std::env::temp_dir().join(format!("attach-{}", std::process::id())));
    let conf = CONF
        .replace("DIR", &dir.0.display().to_string())
        .replace("MASQ", &masquerade.to_string());
    std::fs::create_dir_all(dir.0.join("net.d"))?;
    std::fs::write(dir.0.join("net.d/10.conflist"), conf)?;
    let mut config = Config::new(dir.0.join("state"));
    config.conf_dir = dir.0.join("net.d");
    config.cache_dir = dir.0.join("cache");
    config.bin_dirs = vec![plugins.to_owned()];
    config.in_process = mode;
    let networks = Networks::open(config)?;
    let mut times = [Vec::new(), Vec::new()];
    let mut neighbours = Vec::new();
    for number in 0..there {
        let (namespace, pod) = new_pod(&format!("neighbour{number}"))?;
        networks.attach(pod).await?;
        neighbours.push(namespace);
    }
    for round in 0..rounds {
        let (_namespace, pod) = new_pod(&format!("pod{round}"))?;
        let started = Instant::now();
        let network = networks.attach(pod.clone()).await?;
        times[0].push(started.elapsed());
        let started = Instant::now();
        networks.detach(&pod, Some(&network)).await?;
        times[1].push(started.elapsed());
    }
    Ok(times)
}

fn new_pod(id: &str) -> Result<(OwnedFd, Attachment), Failure> {
    let namespace = netns::create()?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
    Ok((namespace, Attachment::new(id.parse()?, path)))
}

/// Removed with all that is in it.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = orlop_fs::remove_tree(&self.0);
    }
}
