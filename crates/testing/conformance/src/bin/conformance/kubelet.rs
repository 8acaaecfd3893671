//! A kubelet without a cluster, on one node.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use orlop_testkit::machine::{self, CgroupDriver};
use orlop_testkit::process::Process;
use orlop_testkit::{Node, Scratch};
use serde_json::Value;

use crate::asked::Kubelet as Programs;

/// Kernel settings that a kubelet changes at its start. They are restored after the test.
const KERNEL: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

const STOP_LIMIT: Duration = Duration::from_secs(20);

/// One that runs. Dropping it ends it; its pods go on.
pub(crate) struct Kubelet {
    process: Option<Process>,
    command: Box<dyn Fn() -> Command>,
    kubectl: PathBuf,
    port: u16,
    log: PathBuf,
    kernel: Vec<(PathBuf, String)>,
    /// The `N` of its version, `v1.N.…`.
    pub(crate) minor: u32,
    // Goes last.
    pub(crate) place: Scratch,
}

impl Kubelet {
    /// Starts one whose static pods are in [`Kubelet::manifests`].
    pub(crate) fn start(programs: &Programs, node: &Node) -> anyhow::Result<Self> {
        let place = Scratch::new();
        let minor = minor_version(&programs.program)?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let socket = format!("unix://{}", node.socket().display());
        let config = place.path("kubelet.yaml");
        let text = configuration(&place, node, port, minor, &socket)?;
        std::fs::write(&config, text + &gates(minor, &programs.gates))?;
        let (program, root) = (programs.program.clone(), place.subdir("kubelet"));
        let (certificates, name) = (place.subdir("pki"), node.id().to_owned());
        let command = move || {
            let mut command = Command::new(&program);
            command.arg("--config").arg(&config);
            command.arg("--root-dir").arg(&root);
            command.arg("--cert-dir").arg(&certificates);
            command.args(["--hostname-override", &name]);
            // Since 1.27 the endpoint is a configuration key, so these flags are not needed.
            if minor < 27 {
                command.args([
                    "--container-runtime=remote",
                    "--container-runtime-endpoint",
                    &socket,
                ]);
            }
            command
        };
        let kernel = KERNEL.iter().filter_map(|name| {
            let path = Path::new("/proc/sys").join(name);
            Some((path.clone(), std::fs::read_to_string(path).ok()?))
        });
        let mut kubelet = Self {
            process: None,
            command: Box::new(command),
            kubectl: programs.kubectl.clone(),
            port,
            log: place.path("kubelet.log"),
            kernel: kernel.collect(),
            minor,
            place,
        };
        kubelet.start_again();
        Ok(kubelet)
    }

    /// Returns the directory of the kubelet's static pods.
    pub(crate) fn manifests(&self) -> PathBuf {
        self.place.subdir("manifests")
    }

    pub(crate) fn start_again(&mut self) {
        let process = Process::spawn("the kubelet", &mut (self.command)(), &self.log);
        self.process = Some(process);
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop(STOP_LIMIT);
        }
    }

    /// The end of what it has written.
    pub(crate) fn log(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// Returns the kubelet's response to `kubectl get --raw`.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        self.kubectl(&["get", "--raw", path])
    }

    /// The same, of a request that does something.
    pub(crate) fn post(&self, path: &str) -> anyhow::Result<String> {
        let nothing = self.place.path("nothing.json");
        std::fs::write(&nothing, "{}")?;
        self.kubectl(&[
            "create",
            "--raw",
            path,
            "-f",
            &nothing.display().to_string(),
        ])
    }

    /// A static pod as it tells it, `None` while it has none of the name.
    pub(crate) fn pod(&self, name: &str) -> anyhow::Result<Option<Value>> {
        let pods: Value = serde_json::from_str(&self.get("/pods")?)?;
        let full = format!("{name}-{}", self.node_name());
        let mut all = pods["items"].as_array().cloned().unwrap_or_default();
        let found = all
            .iter()
            .position(|pod| pod["metadata"]["name"] == full.as_str());
        Ok(found.map(|at| all.swap_remove(at)))
    }

    /// The path of something of a container of one.
    pub(crate) fn path(&self, what: &str, pod: &str, container: &str) -> String {
        format!("/{what}/default/{pod}-{}/{container}", self.node_name())
    }

    fn node_name(&self) -> String {
        let command = (self.command)();
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        let at = words.iter().position(|word| word == "--hostname-override");
        at.map_or_else(String::new, |at| words[at + 1].clone().into_owned())
    }

    fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(&self.kubectl)
            .env("KUBECONFIG", "/dev/null")
            .env("HOME", self.place.dir())
            .args(["--server", &format!("https://127.0.0.1:{}", self.port)])
            // Who has nothing to show is asked for a name; the kubelet takes anybody, on loopback.
            .args([
                "--insecure-skip-tls-verify",
                "--request-timeout=20s",
                "--token=anybody",
            ])
            .args(args)
            .output()
            .context("starting kubectl")?;
        if !output.status.success() {
            bail!(
                "kubectl {args:?}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop();
        for (path, was) in &self.kernel {
            let _ = std::fs::write(path, was);
        }
    }
}

/// The `N` of `Kubernetes v1.N.…`.
fn minor_version(program: &Path) -> anyhow::Result<u32> {
    let output = Command::new(program).arg("--version").output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let minor = said.split_once(" v1.").map(|(_, rest)| rest);
    let minor = minor.and_then(|rest| rest.split('.').next()?.parse().ok());
    minor.with_context(|| {
        format!(
            "{} tells no version of Kubernetes: {said:?}",
            program.display()
        )
    })
}

/// All that a kubelet of this version needs to be told to leave the machine alone.
fn configuration(
    place: &Scratch,
    node: &Node,
    port: u16,
    minor: u32,
    socket: &str,
) -> anyhow::Result<String> {
    let resolv = place.path("resolv.conf");
    std::fs::write(&resolv, "nameserver 127.0.0.1\n")?;
    let driver = CgroupDriver::of_tests();
    // Since then it asks the runtime (`RuntimeConfig`), and what stands here is not what it does.
    let told = match driver {
        CgroupDriver::Cgroupfs if minor >= 34 => CgroupDriver::Systemd,
        CgroupDriver::Systemd if minor >= 34 => CgroupDriver::Cgroupfs,
        driver => driver,
    };
    let mut text = format!(
        "kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
address: 127.0.0.1
port: {port}
healthzPort: 0
authentication: {{ anonymous: {{ enabled: true }}, webhook: {{ enabled: false }} }}
authorization: {{ mode: AlwaysAllow }}
staticPodPath: {manifests}
fileCheckFrequency: 1s
syncFrequency: 2s
cgroupDriver: {driver}
failSwapOn: false
enforceNodeAllocatable: []
evictionHard: {{ \"memory.available\": \"1Mi\", \"nodefs.available\": \"0%\", \"imagefs.available\": \"0%\", \
                 \"nodefs.inodesFree\": \"0%\" }}
imageGCHighThresholdPercent: 100
makeIPTablesUtilChains: false
volumePluginDir: {plugins}
resolvConf: {resolv}
",
        manifests = place.subdir("manifests").display(),
        driver = told.name(),
        plugins = place.subdir("plugins").display(),
        resolv = resolv.display(),
    );
    // With systemd the root is its own: the pods' slices carry their uid, and go with them.
    if driver == CgroupDriver::Cgroupfs {
        for root in hierarchies()? {
            std::fs::create_dir_all(root.join(node.id()))?;
        }
        writeln!(text, "cgroupRoot: /{}", node.id())?;
    }
    if has_processors(minor) {
        text.push_str("cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n");
    }
    if minor >= 27 {
        writeln!(text, "containerRuntimeEndpoint: {socket}")?;
    }
    if minor >= 31 && !machine::is_cgroup_v2() {
        text.push_str("failCgroupV1: false\n");
    }
    if minor >= 30 {
        writeln!(text, "podLogsDir: {}", place.subdir("logs").display())?;
    }
    Ok(text)
}

/// Whether the kubelet can give pods exclusive processors: the node needs one in addition to the system's.
pub(crate) fn has_processors(minor: u32) -> bool {
    minor >= 26 && std::thread::available_parallelism().is_ok_and(|all| all.get() > 1)
}

/// Its features as a line of the configuration. What is asked for last counts: twice the kubelet takes none.
fn gates(minor: u32, asked: &[String]) -> String {
    let figures = (minor >= 23).then_some("PodAndContainerStatsFromCRI=true");
    let asked = asked.iter().map(String::as_str);
    let all: BTreeMap<&str, &str> = figures
        .into_iter()
        .chain(asked)
        .filter_map(|gate| gate.split_once('='))
        .collect();
    let all: Vec<String> = all
        .iter()
        .map(|(name, is)| format!("{name}: {is}"))
        .collect();
    format!("featureGates: {{ {} }}\n", all.join(", "))
}

/// The roots of all hierarchies of cgroups.
fn hierarchies() -> anyhow::Result<Vec<PathBuf>> {
    let base = Path::new("/sys/fs/cgroup");
    if machine::is_cgroup_v2() {
        return Ok(vec![base.to_owned()]);
    }
    let entries = std::fs::read_dir(base)?.flatten().map(|entry| entry.path());
    // A name that is a link is that of a hierarchy that is there by another.
    Ok(entries
        .filter(|path| path.is_dir() && !path.is_symlink())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_is_set_anyway_and_asked_for_is_there_once() {
        let asked = ["PodAndContainerStatsFromCRI=false", "EventedPLEG=true"].map(str::to_owned);
        let line = "featureGates: { EventedPLEG: true, PodAndContainerStatsFromCRI: false }\n";
        assert_eq!(gates(30, &asked), line);
        assert_eq!(
            gates(30, &[]),
            "featureGates: { PodAndContainerStatsFromCRI: true }\n"
        );
    }
}
