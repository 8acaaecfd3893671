//! Tests with configuration files as administrators write them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Machine, Outcome, Plan, containerd_plan, crio_plan};

fn machine() -> Machine<'static> {
    Machine {
        find: |name| Some(Path::new("/opt/bin").join(name)),
        target: Path::new("/etc/orlop"),
        root: Path::new("/nonexistent"),
    }
}

/// Plans without cri-dockerd.
fn docker_plan(file: &Path, machine: Machine<'_>) -> crate::Result<Plan> {
    super::docker_plan(file, None, machine)
}

/// Writes files with this content, and returns the plan of the first.
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

/// Returns the rendered file without comments, as a table.
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
fn version_4_has_the_servers_among_its_plugins() {
    let third = "version = 3\n[grpc]\naddress = '/run/c.sock'\ngid = 7\nuid = 8\ntcp_address = ':1'\n\
        [metrics]\naddress = '127.0.0.1:1338'\ngrpc_histogram = true\n[ttrpc]\naddress = '/run/t.sock'\n\
        [debug]\naddress = '/run/d.sock'\nlevel = 'debug'\n";
    let fourth = "version = 4\n[debug]\nlevel = 'debug'\n[plugins.'io.containerd.server.v1.grpc']\n\
        address = '/run/c.sock'\ngid = 7\nuid = 8\n[plugins.'io.containerd.server.v1.grpc-tcp']\naddress = ':1'\n\
        [plugins.'io.containerd.server.v1.metrics']\naddress = '127.0.0.1:1338'\n\
        [plugins.'io.containerd.metrics.v1.grpc-prometheus']\ngrpc_histogram = true\n\
        [plugins.'io.containerd.server.v1.ttrpc']\naddress = '/run/t.sock'\n\
        [plugins.'io.containerd.server.v1.debug']\naddress = '/run/d.sock'\n";
    let expected: toml::Table = "grpc = { group = '7' }\nmetrics = { listen = '127.0.0.1:1338' }\n\
        log = { level = 'debug' }"
        .parse()
        .unwrap();
    for text in [third, fourth] {
        let (_dir, plan) = plan(&[("config.toml", text)], containerd_plan);
        assert_eq!(written(&plan), expected, "{text}");
        // The owner of the socket, and TCP.
        assert_eq!(lost(&plan).len(), 2, "{text}");
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
fn what_an_import_imports_comes_after_the_other_imports() {
    let main = "version = 2\nimports = [\"1.toml\", \"2.toml\"]\n";
    let (_dir, plan) = plan(
        &[
            ("config.toml", main),
            ("1.toml", "version = 2\nimports = [\"3.toml\"]\n"),
            ("2.toml", "version = 2\nroot = \"/two\"\n"),
            ("3.toml", "version = 2\nroot = \"/three\"\n"),
        ],
        containerd_plan,
    );
    assert_eq!(plan.root, Some(PathBuf::from("/three")));
}

#[test]
fn a_setting_under_two_names_is_the_last_file_s_and_in_one_file_the_plugin_s() {
    let old = "version = 3\n[metrics]\naddress = \"127.0.0.1:1\"\n";
    let new =
        "version = 4\n[plugins.\"io.containerd.server.v1.metrics\"]\naddress = \"127.0.0.1:2\"\n";
    let import = "imports = [\"a.toml\", \"b.toml\"]\n";
    let both = format!("{new}{}", old.trim_start_matches("version = 3\n"));
    for (first, second, port) in [(old, new, 2), (new, old, 1), (&both, "version = 4\n", 2)] {
        let files = [
            ("config.toml", import),
            ("a.toml", first),
            ("b.toml", second),
        ];
        let (_dir, plan) = plan(&files, containerd_plan);
        let expected = format!("metrics = {{ listen = '127.0.0.1:{port}' }}");
        assert_eq!(written(&plan), expected.parse().unwrap(), "{first}{second}");
        let told = plan
            .notes
            .iter()
            .filter(|note| note.key.contains("address"));
        assert_eq!(told.count(), 1, "{first}{second}");
    }
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
fn runtimes_of_crio_inherit_what_the_default_one_has() {
    let text = r#"[crio.api]
tls_min_version = "VersionTLS13"
[crio.runtime]
cgroup_manager = "cgroupfs"
log_size_max = -1
default_runtime = "kata"
[crio.runtime.runtimes.kata]
runtime_path = "/opt/kata/bin/containerd-shim-kata-v2"
runtime_type = "vm"
runtime_config_path = "/etc/kata.toml"
[crio.runtime.runtimes.performance]
runtime_path = "/usr/bin/never"
inherit_default_runtime = true
allowed_annotations = ["irq-load-balancing.crio.io"]
container_min_memory = "500KiB"
[crio.runtime.runtimes.crun]
runtime_path = ""
inherit_default_runtime = false
[crio.checkpoint_restore]
container_level_enabled = "full"
[crio.network]
cni_status_grace_period = "1m"
"#;
    let (_dir, plan) = plan(&[("crio.conf", text)], crio_plan);
    let expected: toml::Table = r#"
cgroup_driver = "cgroupfs"
default_runtime = "kata"
network = { status_grace = "1m" }
streaming = { tls_min_version = "VersionTLS13" }
[runtimes.kata]
path = "/opt/kata/bin/containerd-shim-kata-v2"
kind = "shim"
shim_config = "/etc/kata.toml"
[runtimes.performance]
path = "/opt/kata/bin/containerd-shim-kata-v2"
kind = "shim"
shim_config = "/etc/kata.toml"
allowed_annotations = ["irq-load-balancing.crio.io"]
[runtimes.crun]
path = "/opt/bin/crun"
"#
    .parse()
    .unwrap();
    assert_eq!(written(&plan), expected);
    assert!(lost(&plan).is_empty(), "{:?}", lost(&plan));
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

/// Returns the `hosts.toml` of a registry as a table.
fn hosts(plan: &Plan, registry: &str) -> toml::Table {
    let path = format!("certs.d/{registry}/hosts.toml");
    let file = plan.files.get(&path);
    file.unwrap_or_else(|| panic!("{path} is none of {:?}", plan.files.keys()))
        .parse()
        .unwrap()
}

#[test]
fn mirrors_of_containerd_have_the_settings_of_their_own_hosts() {
    let text = r#"version = 2
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]
endpoint = ["https://mirror.example/hub", "https://mirror.example/hub/", "http://me:pw@plain.example:5000/"]
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."own.example"]
endpoint = ["https://mirror.example/x", "http://own.example"]
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."*"]
endpoint = ["https://all.example"]
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."none.example"]
endpoint = []
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."bad.example"]
endpoint = ["ftp://x", "https://good.example"]
[plugins."io.containerd.grpc.v1.cri".registry.configs."mirror.example".tls]
ca_file = "/pki/ca.pem"
cert_file = "/pki/c.pem"
key_file = "/pki/k.pem"
[plugins."io.containerd.grpc.v1.cri".registry.configs."registry-1.docker.io".tls]
ca_file = "/pki/proxy.pem"
[plugins."io.containerd.grpc.v1.cri".registry.configs."docker.io".tls]
insecure_skip_verify = true
[plugins."io.containerd.grpc.v1.cri".registry.configs."b.example".tls]
cert_file = "/pki/c.pem"
"#;
    let (_dir, plan) = plan(&[("config.toml", text)], containerd_plan);
    let expected = r#"
ca = "/pki/proxy.pem"
[host."https://mirror.example/hub"]
capabilities = ["pull", "resolve"]
override_path = true
ca = "/pki/ca.pem"
client = [["/pki/c.pem", "/pki/k.pem"]]
[host."http://plain.example:5000"]
capabilities = ["pull", "resolve"]
"#;
    assert_eq!(hosts(&plan, "docker.io"), expected.parse().unwrap());
    let expected = r#"
server = "http://own.example"
[host."https://mirror.example/x"]
capabilities = ["pull", "resolve"]
override_path = true
ca = "/pki/ca.pem"
client = [["/pki/c.pem", "/pki/k.pem"]]
"#;
    assert_eq!(hosts(&plan, "own.example"), expected.parse().unwrap());
    // Its own name is among the mirrors: it has those settings, and the mirrors for all.
    let expected = r#"
ca = "/pki/ca.pem"
client = [["/pki/c.pem", "/pki/k.pem"]]
[host."https://all.example"]
capabilities = ["pull", "resolve"]
"#;
    assert_eq!(hosts(&plan, "mirror.example"), expected.parse().unwrap());
    assert!(hosts(&plan, "none.example").is_empty());
    assert!(hosts(&plan, "_default").contains_key("host"));
    assert!(hosts(&plan, "bad.example").contains_key("host"));
    assert!(!plan.files.contains_key("certs.d/b.example/hosts.toml"));
    let expected = [(11, "endpoint".to_owned()), (21, "cert_file".to_owned())];
    assert_eq!(lost(&plan), expected);
}

#[test]
fn insecure_registries_of_docker_s_are_asked_with_and_without_tls() {
    let text = r#"{
"registry-mirrors": ["https://m.example:1/", "http://n.example"],
"insecure-registries": ["a.example:5000", "http://b.example", "u:secret@c.example", "m.example:1", "docker.io", "10.0.0.0/8"]
}"#;
    let (_dir, plan) = plan(&[("daemon.json", text)], docker_plan);
    for host in ["a.example:5000", "b.example", "m.example:1"] {
        let expected = format!(
            "server = \"http://{host}\"\n[host.\"https://{host}\"]\ncapabilities = [\"pull\", \"resolve\"]\n\
             skip_verify = true\n"
        );
        assert_eq!(hosts(&plan, host), expected.parse().unwrap());
    }
    let expected = r#"
[host."https://m.example:1"]
capabilities = ["pull", "resolve"]
skip_verify = true
[host."http://n.example"]
capabilities = ["pull", "resolve"]
"#;
    assert_eq!(hosts(&plan, "docker.io"), expected.parse().unwrap());
    assert_eq!(lost(&plan), [(3, "insecure-registries".to_owned())]);
    let Outcome::Lost(why) = &plan.notes.last().unwrap().outcome else {
        unreachable!("it was looked at above");
    };
    assert!(
        why.starts_with("cannot convert (an address with credentials), 10.0.0.0/8: "),
        "{why}"
    );
    assert!(!written(&plan)["images"].as_table().unwrap().is_empty());
}

#[test]
fn no_secret_is_in_the_report() {
    let docker = r#"{
"http-proxy": "http://user:secret@p.example", "https-proxy": "secret", "no-proxy": "secret",
"proxies": {"http-proxy": "http://user:secret@p.example", "default": {"httpsProxy": "secret"}},
"log-opts": {"splunk-token": "secret", "labels": "secret"},
"registry-mirrors": ["https://user:secret@m.example/x", "ftp://secret@m.example"],
"runtimes": {"x": {"path": "x", "runtimeArgs": ["--api-token", "secret", "--password=secret", "--ok"]}}
}"#;
    let containerd = r#"version = 2
[stream_processors."x"]
env = ["A=secret"]
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."a.example"]
endpoint = ["https://user:se@secret@m.example, http://secret@n.example"]
[plugins."io.containerd.grpc.v1.cri".registry.headers]
X-Key = ["secret"]
[plugins."io.containerd.grpc.v1.cri".registry.auths."https://a.example"]
auth = "secret"
[proxy_plugins.x]
address = "secretless"
options = [{ api_token = "secret", rest = "http://u:secret@x" }]
"#;
    let crio = r#"[crio.runtime]
default_env = ["A=secret"]
conmon_env = ["A=secret"]
"#;
    let made = [
        plan(&[("daemon.json", docker)], docker_plan),
        plan(
            &[("config.toml", &containerd.replace("secretless", "shown"))],
            containerd_plan,
        ),
        plan(&[("crio.conf", crio)], crio_plan),
    ];
    let mut all = String::new();
    for (_dir, plan) in &made {
        assert!(plan.notes.len() >= 2);
        for note in &plan.notes {
            assert!(!note.value.contains("secret"), "{note:?}");
            let (Outcome::Taken(text) | Outcome::Needless(text) | Outcome::Lost(text)) =
                &note.outcome;
            assert!(!text.contains("secret"), "{note:?}");
            all.push_str(&note.value);
        }
    }
    for shown in ["https://m.example/x", "shown", "--ok", "--password=("] {
        assert!(all.contains(shown), "{shown}: {all}");
    }
}

#[test]
fn docker_s_shared_memory_is_that_of_pods() {
    for (theirs, ours) in [
        ("64M", Some("64MiB")),
        ("0.5g", Some("512MiB")),
        ("2 GiB", Some("2GiB")),
        ("1025", Some("1025")),
        ("1kb", Some("1KiB")),
        ("0", None),
        ("much", None),
        ("9e9", None),
        ("99999999999t", None),
    ] {
        let text = format!("{{\"default-shm-size\": \"{theirs}\"}}");
        let (_dir, plan) = plan(&[("daemon.json", &text)], docker_plan);
        let written = plan.text("containers", "shm_size");
        assert_eq!(written.as_deref(), ours, "{theirs}");
        assert_eq!(lost(&plan).is_empty(), ours.is_some() || theirs == "0");
    }
}

#[test]
fn a_rule_s_star_stands_for_a_whole_name() {
    let tables = [
        super::docker::RULES,
        super::containerd_rules::RULES,
        super::crio_rules::RULES,
    ];
    for (pattern, _) in tables.into_iter().flatten() {
        let mut parts = pattern.split('/');
        assert!(
            parts.all(|part| part == "*" || (!part.is_empty() && !part.contains('*'))),
            "{pattern}"
        );
    }
    let text =
        r#"{"tls": true, "tlsverify": true, "tlscacert": "/a", "tlscert": "/b", "tlskey": "/c"}"#;
    let (_dir, plan) = plan(&[("daemon.json", text)], docker_plan);
    assert_eq!(lost(&plan), []);
}

#[test]
fn drop_ins_of_registries_alone_are_told_of() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("etc/containers/registries.conf.d");
    fs::create_dir_all(&dir).unwrap();
    let file = root.path().join("crio.conf");
    fs::write(&file, "[crio.runtime]\n").unwrap();
    let of = || {
        let machine = Machine {
            root: root.path(),
            ..machine()
        };
        crio_plan(&file, machine).unwrap()
    };
    fs::write(dir.join("README"), "").unwrap();
    assert_eq!(lost(&of()), []);
    fs::write(dir.join("50-mirrors.conf"), "").unwrap();
    let plan = of();
    assert_eq!(lost(&plan), [(1, "(read by default)".to_owned())]);
    let dir = Path::new("/etc/containers/registries.conf.d");
    assert_eq!(plan.notes[0].file, dir);
    fs::write(root.path().join("etc/containers/registries.conf"), "").unwrap();
    let plan = of();
    assert_eq!(lost(&plan), []);
    assert!(plan.text("images", "registries_conf").is_some());
}

#[test]
fn files_that_crio_reads_by_default_are_taken_over() {
    let root = tempfile::tempdir().unwrap();
    let containers = root.path().join("etc/containers");
    fs::create_dir_all(&containers).unwrap();
    for file in ["registries.conf", "policy.json"] {
        fs::write(containers.join(file), "").unwrap();
    }
    let file = root.path().join("crio.conf");
    let of = |text: &str| {
        fs::write(&file, text).unwrap();
        let machine = Machine {
            root: root.path(),
            ..machine()
        };
        crio_plan(&file, machine).unwrap()
    };
    let plan = of(
        "[crio.image]\nsignature_policy = \"\"\n[crio.runtime]\nrdt_config_file = \"/etc/rdt\"\n",
    );
    for (table, key, expected) in [
        (
            "images",
            "registries_conf",
            Some("/etc/containers/registries.conf"),
        ),
        (
            "images",
            "signature_policy",
            Some("/etc/containers/policy.json"),
        ),
        ("images", "signature_policy_dir", None),
        ("containers", "rdt_config", Some("/etc/rdt")),
    ] {
        assert_eq!(plan.text(table, key).as_deref(), expected, "{key}");
    }
    let taken = plan
        .notes
        .iter()
        .filter(|note| note.key == "(read by default)");
    assert_eq!(taken.count(), 2);
    let plan = of("[crio.image]\nsignature_policy = \"/etc/own.json\"\n");
    let policy = plan.text("images", "signature_policy");
    assert_eq!(policy.as_deref(), Some("/etc/own.json"));
}
