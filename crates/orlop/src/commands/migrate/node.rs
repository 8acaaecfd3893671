//! Checks whether the node has what orlop needs to run its pods.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_cri_api::inspection::Finding;
use orlop_engine::config::{PROGRAM_DIRS, PolicyFiles, RegistriesFile};
use orlop_fs::{SMALL_FILE, read_text};
use orlop_migrate::{Plan, kubelet_advice};

use super::from::From;

const KUBEADM_FLAGS: &str = "/var/lib/kubelet/kubeadm-flags.env";
/// Limit of the bytes that a program prints as its version.
const LONGEST_VERSION: u64 = 4096;
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return None;
    }
    let paths = PROGRAM_DIRS.iter().map(|dir| Path::new(dir).join(name));
    paths.into_iter().find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

pub(super) async fn look(from: From, plan: &Plan, kubelet: &Path) -> Vec<Finding> {
    let mut findings = vec![version(from).await];
    for path in &plan.programs {
        findings.push(if is_program(path) {
            Finding::ok("runtimes", format!("{} exists", path.display()))
        } else {
            let text = format!("{} is not an executable file", path.display());
            Finding::problem(
                "runtimes",
                text,
                "install it, or remove its table from [runtimes]",
            )
        });
    }
    findings.push(networks(plan));
    findings.extend(files_of_images(plan));
    findings.extend(listed(plan, ("hooks", "dirs"), "hooks", "OCI hooks in"));
    findings.extend(listed(plan, ("nri", "plugin_dir"), "nri", "NRI plugins in"));
    findings.extend(kubelet_findings(plan, kubelet));
    findings.extend(running(from, plan));
    findings
}

async fn version(from: From) -> Finding {
    let program = match from {
        From::Containerd => "containerd",
        From::Crio => "crio",
        From::Docker => "dockerd",
    };
    let Some(path) = find_program(program) else {
        return Finding::ok("version", format!("{program} is not installed"));
    };
    let mut command = tokio::process::Command::new(&path);
    command.arg("--version");
    match orlop_pool::ask(command, b"", LONGEST_VERSION, PATIENCE).await {
        Ok(said) => {
            let text = String::from_utf8_lossy(&said.answer);
            let line = text.lines().next().unwrap_or_default().trim().to_owned();
            Finding::ok("version", line)
        }
        Err(error) => Finding::warning(
            "version",
            format!("{} --version: {error}", path.display()),
            "no action needed: the migration does not use this program",
        ),
    }
}

fn networks(plan: &Plan) -> Finding {
    let dir = plan.text("network", "conf_dir");
    let dir = dir.as_deref().unwrap_or("/etc/cni/net.d");
    let names = names_in(Path::new(dir));
    let is_network = |name: &&String| {
        let extension = Path::new(name.as_str()).extension();
        extension.is_some_and(|it| it == "conf" || it == "conflist" || it == "json")
    };
    match names.iter().find(is_network) {
        Some(name) => Finding::ok("network", format!("{dir}/{name} is the pod network")),
        None if plan.text("network", "conf_template").is_some() => Finding::ok(
            "network",
            "`network.conf_template` creates the network from the pod CIDR of the kubelet",
        ),
        None => Finding::warning(
            "network",
            format!("no CNI network is configured in {dir}"),
            "install the network plugin of the cluster, or set `network.default_subnets` for the \
             built-in bridge network, which pods use until then",
        ),
    }
}

/// Checks whether orlop can parse the registry and signature policy files.
fn files_of_images(plan: &Plan) -> Vec<Finding> {
    let path = |key: &str| plan.text("images", key).map(PathBuf::from);
    let mut findings = Vec::new();
    if let Some(file) = path("registries_conf") {
        findings.push(match RegistriesFile::at(&file).check() {
            Ok((registries, aliases)) => {
                let file = file.display();
                let text =
                    format!("{file} is valid (registries: {registries}, aliases: {aliases})");
                Finding::ok("registries", text)
            }
            Err(error) => Finding::problem(
                "registries",
                format!("all pulls would fail: {}", orlop_engine::chain(&error)),
                "fix the file; docs/guides/registries.md lists the supported settings",
            ),
        });
    }
    let policies = PolicyFiles {
        node: path("signature_policy"),
        namespaces: path("signature_policy_dir"),
    };
    if policies.is_empty() {
        return findings;
    }
    let (right, wrong) = policies.check();
    if wrong.is_empty() {
        let text = format!("all signature policies and their keys are valid (policies: {right})");
        findings.push(Finding::ok("signatures", text));
    }
    let problem = |error| {
        let why = orlop_engine::chain(&error);
        let text = format!("images of this signature policy cannot be used: {why}");
        let remedy = "fix the file; docs/guides/signatures.md lists the supported settings";
        Finding::problem("signatures", text, remedy)
    };
    findings.extend(wrong.into_iter().map(problem));
    findings
}

fn listed(plan: &Plan, (table, key): (&str, &str), area: &str, what: &str) -> Vec<Finding> {
    let dirs = plan.texts(table, key).into_iter();
    dirs.filter_map(|dir| {
        let names = names_in(Path::new(&dir));
        let text = format!("{what} {dir}: {}", names.join(", "));
        (!names.is_empty()).then(|| Finding::ok(area, text))
    })
    .collect()
}

fn kubelet_findings(plan: &Plan, kubelet: &Path) -> Vec<Finding> {
    let config = read_text(kubelet, SMALL_FILE).ok();
    let flags = read_text(KUBEADM_FLAGS, SMALL_FILE).ok();
    let shown = kubelet.display().to_string();
    let driver = plan.text("", "cgroup_driver");
    let advice = kubelet_advice(
        config.as_deref().map(|text| (shown.as_str(), text)),
        flags.as_deref().map(|text| (KUBEADM_FLAGS, text)),
        driver.as_deref(),
    );
    let advice = advice.into_iter().map(|it| {
        if it.remedy.is_empty() {
            Finding::ok("kubelet", it.text)
        } else {
            Finding::warning("kubelet", it.text, it.remedy)
        }
    });
    advice.collect()
}

/// Checks whether the other runtime still runs: it must be stopped before orlop takes the node.
fn running(from: From, plan: &Plan) -> Option<Finding> {
    let (usual, dirs): (_, &[&str]) = match from {
        From::Containerd => ("/run/containerd", &["io.containerd.runtime.v2.task/k8s.io"]),
        From::Crio => (
            "/run/containers/storage",
            &["overlay-containers", "vfs-containers", "btrfs-containers"],
        ),
        From::Docker => (
            "/run/docker",
            &[
                "runtime-runc/moby",
                "containerd/daemon/io.containerd.runtime.v2.task/moby",
            ],
        ),
    };
    let state = plan.state.as_deref().unwrap_or(Path::new(usual));
    let dirs = dirs.iter().map(|dir| state.join(dir));
    let count: usize = dirs.map(|dir| names_in(&dir).len()).sum();
    (count > 0).then(|| {
        Finding::warning(
            "pods",
            format!("containers of {} exist (number: {count})", from.name()),
            "drain the node and stop the containers (docs/guides/migrate.md)",
        )
    })
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.take(1000).collect();
    names.sort();
    names
}
