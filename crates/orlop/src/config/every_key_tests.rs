//! Tests that set every key to a value other than its default, and reload.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::change::changes;
use super::schema::{Config, RUNTIMES};
use super::section::{Applies, Key, Section, dotted};
use crate::backend::engine_config;

/// Another value for each key.
const OTHERS: &str = r#"
root = "/other/root"
state = "/other/state"
backend = "native"
default_runtime = "other"
cgroup_driver = "systemd"
worker_threads = 3

[grpc]
listen = ["unix:///other/grpc.sock"]
group = "7"
max_message_size = "17MiB"
max_connections = 7
max_calls = 7
max_calls_per_connection = 7
max_streams = 7
event_backlog = "7s"
keepalive = "7s"
keepalive_timeout = "7s"
drain_timeout = "7s"

[log]
level = "debug"
format = "json"
slow_call = "7s"

[metrics]
listen = "127.0.0.1:7"
tls_cert = "/other/metrics.pem"
tls_key = "/other/metrics.key"
client_ca = "/other/ca.pem"
token_file = "/other/token"
names = ["other.example"]
docker_names = true

[web]
listen = "127.0.0.1:8"
tls_cert = "/other/web.pem"
tls_key = "/other/web.key"
token_file = "/other/web.token"
names = ["other.example"]

[traces]
otlp = "https://127.0.0.1:7"
protocol = "grpc"
sample = 0.7
ca = "/other/collector.pem"
headers_file = "/other/headers"

[images]
hosts_dirs = ["/other/hosts"]
registries_conf = "/other/registries.conf"
credentials = ["/other/auth.json"]
credentials_dir = "/other/credentials"
internal_hosts = ["other.example"]
signature_policy = "/other/policy.json"
signature_policy_dir = "/other/policies"
signature_stores = "/other/stores"
decryption_keys = "/other/keys"
key_providers = "/other/providers.json"
store = "erofs"
lazy = "auto"
lazy_repositories = ["other.example/*"]
lazy_min_layer = "7MiB"
lazy_timeout = "7s"
lazy_bandwidth = "7MiB"
lazy_cache = "7MiB"
keep_blobs = true
max_downloads = 7
max_size = "7MiB"
unpack_memory = "7MiB"
progress_timeout = "7s"
min_speed = "7KiB"
abandon_after = "7s"
pinned = ["other.example/*"]
platform = "linux/riscv64"

[network]
conf_dir = "/other/net.d"
bin_dirs = ["/other/bin"]
cache_dir = "/other/cache"
in_process = "never"
pinned_plugins = ["portmap"]
max_networks = 7
status_grace = "7s"
default_subnets = ["10.7.0.0/16"]
default_bridge = "other0"
ip_preference = "ipv6"
conf_template = "/other/template"
plugin_timeout = "7s"
gc_interval = "7s"

[streaming]
address = "127.0.0.7"
port = 7
tls_cert = "/other/cert.pem"
tls_key = "/other/key.pem"
client_ca = "/other/ca.pem"
tls_min_version = "VersionTLS13"
tls_cipher_suites = ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
idle_timeout = "7s"

[containers]
root = "/other/containers"
max_log_line = "7KiB"
log_rate = "7KiB"
log_size = "7MiB"
log_full = "drop"
pids_limit = 7
ulimits = ["nofile=7:7"]
default_annotations = { other = "7" }
shm_size = "7MiB"
timezone = "UTC"
min_gomaxprocs = 7
sysctls = { "net.ipv4.ip_forward" = "1" }
unprivileged_ports = false
unprivileged_icmp = false
exec_output_limit = "7MiB"
exec_output_memory = "7MiB"
restore_images = true
restore_archives = false
seccomp_when_unset = true
seccomp_deny_socketcall = true
host_network_unconfined = true
selinux_category_range = 7
device_ownership_from_security_context = true
cdi_dirs = ["/other/cdi"]
exec_cpu_affinity = "first"
blockio_config = "BLOCKIO"
rdt_classes = ["other"]
rdt_config = "RDT"
ignore_image_volumes = true

[keeper]
path = "/other/keeper"
cgroup = "/other"

[nri]
enable = false
socket = "/other/nri.sock"
external_connections = false
plugin_dir = "/other/plugins"
plugin_config_dir = "/other/plugin-conf"
registration_timeout = "7s"
request_timeout = "7s"
validator = true
reject_oci_hooks = true
reject_runtime_default_seccomp = true
reject_unconfined_seccomp = true
reject_custom_seccomp = true
reject_namespaces = true
reject_sysctls = true
required_plugins = ["other"]
tolerate_missing_annotation = "other"

[hooks]
dirs = ["/other/hooks"]

[docker]
endpoint = "unix:///other/docker.sock"
root = "/other/docker"
pause_image = "other.example/pause:1"
request_timeout = "7s"
network_plugin = "none"
hairpin_mode = "none"
ipv6_dual_stack = false
runtime_cgroups = "/other"

[runtimes.other]
kind = "shim"
path = "/other/shim"
shim_config = "/other/shim.toml"
shim_config_type = "other.Options"
shim_config_body = true
guest_pull = true
sandboxer = "proxy"
address = "/other/controller.sock"
controller = "another"
io = "streaming"
args = ["--other"]
root = "/other/runtime"
pod_annotations = ["other/*"]
container_annotations = ["other/*"]
allowed_annotations = ["other/*"]
default_annotations = { other = "8" }
base_runtime_spec = "BASE"
cgroup_writable = true
privileged_without_host_devices = true
cni_conf_dir = "/other/runtime-net.d"
"#;

/// Keys that other keys require.
const BASE: &str = r#"
[streaming]
tls_cert = "/base/cert.pem"
tls_key = "/base/key.pem"
[keeper]
path = "/base/keeper"
[nri]
validator = true
[runtimes.other]
kind = "shim"
sandboxer = "proxy"
"#;

/// Prefixes of keys that do not belong to the engine.
const ELSEWHERE: [&str; 5] = ["grpc.", "log.", "metrics.", "web.", "traces."];

/// Returns a table of a configuration; that of a runtime is created.
fn section<'c>(config: &'c mut Config, table: &str) -> &'c mut dyn Section {
    match table.strip_prefix(&format!("{RUNTIMES}.")) {
        Some(name) => config.runtimes.entry(name.to_owned()).or_default(),
        None => config.section_mut(table).expect("a table"),
    }
}

/// Sets those keys of a file that `wanted` accepts.
fn set(config: &mut Config, text: &str, wanted: impl Fn(&str) -> bool) {
    let document = DeTable::parse(text).expect("TOML");
    let mut set_one = |table: &str, key: &str, value: &Spanned<DeValue<'_>>| {
        if wanted(&dotted(table, key)) {
            let done = section(config, table).set(key, value);
            done.unwrap_or_else(|error| panic!("{table}.{key}: {error:?}"));
        }
    };
    for (name, value) in document.get_ref() {
        let name = name.get_ref().as_ref();
        match value.get_ref().as_table() {
            Some(runtimes) if name == RUNTIMES => {
                for (runtime, keys) in runtimes {
                    let table = dotted(RUNTIMES, runtime.get_ref());
                    for (key, value) in keys.get_ref().as_table().expect("a table") {
                        set_one(&table, key.get_ref(), value);
                    }
                }
            }
            Some(keys) => {
                for (key, value) in keys {
                    set_one(name, key.get_ref(), value);
                }
            }
            None => set_one("", name, value),
        }
    }
}

fn keys(config: &Config) -> BTreeMap<String, Key> {
    let sections = config.sections();
    let mut sections: Vec<(String, &dyn Section)> =
        sections.map(|(name, it)| (name.to_owned(), it)).collect();
    for (name, runtime) in &config.runtimes {
        sections.push((dotted(RUNTIMES, name), runtime));
    }
    let of = |(table, section): (String, &dyn Section)| {
        let keys = section.keys().into_iter();
        keys.map(move |key| (dotted(&table, key.name), key))
            .collect::<Vec<_>>()
    };
    sections.into_iter().flat_map(of).collect()
}

/// The files with classes and a specification must exist.
fn others(dir: &Path) -> String {
    let classes = dir.join("blockio.yaml");
    std::fs::write(&classes, "Classes:\n  other:\n    - Weight: 70\n").expect("write");
    let rdt = dir.join("rdt.yaml");
    std::fs::write(&rdt, "partitions: {other: {classes: {one: }}}\n").expect("write");
    let base = dir.join("base.json");
    std::fs::write(&base, "{\"annotations\": {\"other\": \"9\"}}").expect("write");
    let of = |path: &Path| path.to_str().expect("text").to_owned();
    let others = OTHERS.replace("BLOCKIO", &of(&classes));
    let others = others.replace("RDT", &of(&rdt));
    others.replace("BASE", &of(&base))
}

fn base() -> Config {
    let mut config = Config::default();
    set(&mut config, BASE, |_| true);
    config
}

#[test]
fn a_reload_takes_all_that_is_live_and_leaves_the_rest() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut old = Config::default();
    set(&mut old, "[runtimes.other]\nkind = \"oci\"", |_| true);
    let mut new = old.clone();
    set(&mut new, &others(dir.path()), |_| true);
    let (before, wanted) = (keys(&old), keys(&new));
    // If the backend changes, every key needs a restart.
    for (name, key) in wanted.iter().filter(|(name, _)| *name != "backend") {
        assert_ne!(key.value, before[name].value, "{name} has another value");
    }
    let mut rules = new.clone();
    rules.keep(&old);
    let rules = keys(&rules);
    let told = changes(&old, &new);
    for (name, key) in wanted.iter().filter(|(name, _)| *name != "backend") {
        let (expected, list) = match key.applies {
            Applies::live => (&key.value, &told.applied),
            Applies::restart => (&before[name].value, &told.pending),
        };
        assert_eq!(rules[name].value, *expected, "{name}");
        assert!(list.contains(name), "{name}");
    }
}

#[test]
fn every_live_key_reaches_the_engine() {
    let dir = tempfile::tempdir().expect("a directory");
    let others = others(dir.path());
    let told = |config: &Config| format!("{:?}", engine_config(config).expect("a configuration"));
    let base = base();
    let before = told(&base);
    for (name, key) in keys(&base) {
        let is_elsewhere = ELSEWHERE.iter().any(|table| name.starts_with(table));
        if key.applies == Applies::restart || is_elsewhere {
            continue;
        }
        let mut changed = base.clone();
        set(&mut changed, &others, |it| it == name);
        if changed == base {
            // The base sets this key, so it is compared without the base.
            changed = Config::default();
            changed
                .runtimes
                .insert("other".to_owned(), super::Runtime::default());
            set(&mut changed, BASE, |it| it != name);
        }
        assert_ne!(changed, base, "{name}");
        assert!(told(&changed) != before, "{name} does not reach the engine");
    }
}
