//! What becomes of files as their administrators write them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Machine, Outcome, Plan, containerd_plan, crio_plan, docker_plan};

fn machine() -> Machine<'static> {
    Machine {
        find: |name| Some(Path::new("/opt/bin").join(name)),
        target: Path::new("/etc/orlop"),
    }
}

/// Files of this content in a directory, and the plan of the first.
fn plan(
    files: &[(&str, &str)],
    make: fn(&Path, Machine<'_>) -> crate::Result<Plan>,
) -> (tempfile::TempDir, Plan) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let plan = make(&dir.path().join(files[0].0), machine()).unwrap();
    (dir, plan)
}

fn lost(plan: &Plan) -> Vec<(usize, String)> {
    let lines = plan.notes.iter();
    let lost = lines.filter(|note| matches!(note.outcome, Outcome::Lost(_)));
    lost.map(|note| (note.line, note.key.rsplit('.').next().unwrap().to_owned()))
        .collect()
}

/// The written file without its comments, as a table.
fn written(plan: &Plan) -> toml::Table {
    plan.render("test").parse().unwrap()
}

#[test]
fn versions_2_and_3_of_containerd_say_the_same() {
    let second = r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
enable_unprivileged_ports = true
max_container_log_line_size = 8192
unset_seccomp_profile = "runtime/default"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/x/bin"
max_conf_num = 3
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "/a:/b"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "crun"
snapshotter = "erofs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
runtime_type = "io.containerd.runc.v2"
pod_annotations = ["a.*"]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun.options]
BinaryName = "/usr/bin/crun"
SystemdCgroup = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.kata]
runtime_type = "io.containerd.kata.v2"
sandboxer = "shim"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.kata.options]
ConfigPath = "/etc/kata.toml"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.gvisor]
runtime_type = "io.containerd.runsc.v1"
"#;
    let third = second
        .replace("version = 2", "version = 3")
        .replace("snapshotter = \"erofs\"\n", "")
        .replace("config_path = \"/a:/b\"", "config_path = \"/a:/b\"\n[plugins.'io.containerd.cri.v1.images']\nsnapshotter = 'erofs'")
        .replace("\"io.containerd.grpc.v1.cri\".registry", "'io.containerd.cri.v1.images'.registry")
        .replace("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime");
    let first = second
        .replace("version = 2\n", "")
        .replace("\"io.containerd.grpc.v1.cri\"", "cri");
    let expected: toml::Table = r#"
cgroup_driver = "systemd"
default_runtime = "crun"
containers = { unprivileged_ports = true, max_log_line = 8192, seccomp_when_unset = true }
network = { bin_dirs = ["/x/bin"], max_networks = 3 }
images = { hosts_dirs = ["/etc/orlop/certs.d", "/a", "/b"], store = "erofs" }
[runtimes.crun]
path = "/usr/bin/crun"
pod_annotations = ["a.*"]
[runtimes.kata]
kind = "shim"
path = "/opt/bin/containerd-shim-kata-v2"
sandboxer = "shim"
shim_config = "/etc/kata.toml"
[runtimes.gvisor]
kind = "sandboxed"
path = "/opt/bin/runsc"
"#
    .parse()
    .unwrap();
    for text in [second, &third, &first] {
        let (_dir, plan) = plan(&[("config.toml", text)], containerd_plan);
        assert_eq!(written(&plan), expected, "{text}");
        assert_eq!(lost(&plan), [], "{text}");
    }
}

#[test]
fn imports_come_after_and_what_they_replace_does_not_count() {
    let main = "version = 2\nimports = [\"conf.d/*.toml\"]\nroot = \"/one\"\noom_score = -999\n";
    let (dir, plan) = plan(
        &[
            ("config.toml", main),
            ("conf.d/1.toml", "version = 2\nroot = \"/two\"\n"),
            ("conf.d/2.toml", "version = 2\nroot = \"/three\"\n"),
            ("conf.d/3.txt", "no toml\n"),
        ],
        containerd_plan,
    );
    assert_eq!(plan.root, Some(PathBuf::from("/three")));
    let roots = plan.notes.iter().filter(|note| note.key == "root");
    let files: Vec<_> = roots.map(|note| note.file.clone()).collect();
    assert_eq!(files, [dir.path().join("conf.d/2.toml")]);
    assert_eq!(lost(&plan), [(4, "oom_score".to_owned())]);
}

#[test]
fn registries_in_containerd_s_file_become_files_and_passwords_are_not_shown() {
    let text = r#"version = 2
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]
endpoint = ["https://mirror.example"]
[plugins."io.containerd.grpc.v1.cri".registry.configs."a.example:5000".tls]
insecure_skip_verify = true
[plugins."io.containerd.grpc.v1.cri".registry.configs."a.example:5000".auth]
username = "me"
password = "secret"
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."../../etc"]
endpoint = ["https://mirror.example"]
[plugins."io.containerd.grpc.v1.cri".registry.mirrors.".."]
endpoint = ["https://mirror.example"]
"#;
    let (_dir, plan) = plan(&[("config.toml", text)], containerd_plan);
    let files: BTreeMap<&str, &str> = plan
        .files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        [
            &"certs.d/a.example:5000/hosts.toml",
            &"certs.d/docker.io/hosts.toml",
            &"credentials.json"
        ]
    );
    assert!(files["certs.d/docker.io/hosts.toml"].contains("[host.\"https://mirror.example\"]"));
    assert_eq!(
        files["certs.d/a.example:5000/hosts.toml"],
        "skip_verify = true\n"
    );
    let login = r#"{"auths":{"a.example:5000":{"auth":"bWU6c2VjcmV0"}}}"#;
    assert_eq!(files["credentials.json"], login);
    assert!(plan.notes.iter().all(|note| !note.value.contains("secret")));
    assert!(!plan.render("containerd").contains("secret"));
    let endpoint = "endpoint".to_owned();
    assert_eq!(lost(&plan), [(10, endpoint.clone()), (12, endpoint)]);
}

#[test]
fn what_crio_says_is_taken_from_its_files_in_order() {
    let main = r#"[crio]
root = "/srv/storage"
[crio.runtime]
pids_limit = 1024
default_sysctls = ["net.ipv4.ping_group_range=0 0"]
timezone = "Local"
hostnetwork_disable_selinux = true
no_pivot = true
default_ulimits = ["nofile=1024:2048"]
[crio.image]
signature_policy = "/etc/containers/policy.json"
pinned_images = ["a*"]
[crio.network]
plugin_dirs = ["/opt/cni/bin/"]
"#;
    let drop_in = r#"[crio.runtime]
default_runtime = "crun"
cgroup_manager = "cgroupfs"
pids_limit = 2048
[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"
monitor_path = "/usr/bin/conmon"
allowed_annotations = ["io.containers.trace-syscall"]
"#;
    let (_dir, plan) = plan(
        &[("crio.conf", main), ("crio.conf.d/10-crun.conf", drop_in)],
        crio_plan,
    );
    let expected: toml::Table = r#"
cgroup_driver = "cgroupfs"
default_runtime = "crun"
network = { bin_dirs = ["/opt/cni/bin/"] }
[runtimes.crun]
path = "/usr/bin/crun"
allowed_annotations = ["io.containers.trace-syscall"]
[containers]
pids_limit = 2048
timezone = "Local"
host_network_unconfined = true
sysctls = { "net.ipv4.ping_group_range" = "0 0" }
ulimits = ["nofile=1024:2048"]
[images]
signature_policy = "/etc/containers/policy.json"
pinned = ["a*"]
"#
    .parse()
    .unwrap();
    assert_eq!(written(&plan), expected);
    assert_eq!(plan.root, Some(PathBuf::from("/srv/storage")));
    assert_eq!(lost(&plan), [(8, "no_pivot".to_owned())]);
}

#[test]
fn docker_s_file_gives_drivers_runtimes_and_registries() {
    let text = "{\n\t\"exec-opts\": [\"native.cgroupdriver=systemd\"],\n  \"default-runtime\": \"crun\",\n  \
                \"runtimes\": {\"crun\": {\"path\": \"crun\", \"runtimeArgs\": [\"--debug\"]}},\n  \
                \"insecure-registries\": [\"a.example:5000\"],\n  \"userns-remap\": \"default\",\n  \
                \"default-ulimits\": {\"nofile\": {\"Name\": \"nofile\", \"Soft\": 10, \"Hard\": 20}}\n}\n";
    let (_dir, plan) = plan(&[("daemon.json", text)], docker_plan);
    let expected: toml::Table = r#"
cgroup_driver = "systemd"
default_runtime = "crun"
runtimes = { crun = { path = "/opt/bin/crun", args = ["--debug"] } }
containers = { ulimits = ["nofile=10:20"] }
images = { hosts_dirs = ["/etc/orlop/certs.d"] }
"#
    .parse()
    .unwrap();
    assert_eq!(written(&plan), expected);
    assert_eq!(lost(&plan), [(6, "userns-remap".to_owned())]);
    let missing = docker_plan(Path::new("/nonexistent/daemon.json"), machine()).unwrap();
    assert!(missing.notes.is_empty());
}

#[test]
fn a_key_of_several_lines_stays_a_comment() {
    let text = "version = 2\n\"x\\n[nri]\\nenable\" = true\n";
    let (_dir, plan) = plan(&[("config.toml", text)], containerd_plan);
    assert_eq!(plan.notes.len(), 2);
    assert!(written(&plan).is_empty(), "{}", plan.render("containerd"));
}
