//! Conversion of the configuration file to the settings of the engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use orlop_engine::config as engine;

use super::settings::{self, own_path};
use crate::config::values::{Laziness, Limit, RuntimeKind, Sandboxer, StreamsBy};
use crate::config::{Config, RUNTIMES};

/// Converts the configuration.
pub(crate) fn engine_config(config: &Config) -> anyhow::Result<engine::Config> {
    let root = config.daemon.root.to_path_buf();
    Ok(engine::Config {
        state: config.daemon.state.to_path_buf(),
        keeper: keeper(config)?,
        keeper_cgroup: config.keeper.cgroup.clone(),
        cgroup_driver: config.daemon.cgroup_driver,
        default_runtime: config.daemon.default_runtime.clone(),
        runtimes: runtimes(config)?,
        images: images(config, &root),
        network: network(config, &root),
        network_gc_interval: config.network.gc_interval.nonzero(),
        streaming: settings::streaming(config),
        containers: containers(config)?,
        event_backlog: config.grpc.event_backlog.get(),
        nri: plugins(config),
        containers_root: config
            .containers
            .root
            .as_ref()
            .map_or_else(|| root.clone(), own_path),
        root,
    })
}

/// Returns the path of the keeper program: the configured one, else the one in the daemon's directory.
fn keeper(config: &Config) -> anyhow::Result<PathBuf> {
    if let Some(path) = &config.keeper.path {
        return Ok(path.to_path_buf());
    }
    let own = std::env::current_exe().context("cannot determine the path of the daemon binary")?;
    let keeper = own.with_file_name("orlop-keeper");
    if !keeper.is_file() {
        anyhow::bail!(
            "{} is missing; install it in the directory of {}, or set keeper.path",
            keeper.display(),
            own.display()
        );
    }
    Ok(keeper)
}

/// Path of a program in the daemon's directory. Its existence is checked when it is needed.
fn beside_us(name: &str) -> PathBuf {
    let own = std::env::current_exe();
    own.map_or_else(|_| PathBuf::from(name), |own| own.with_file_name(name))
}

fn runtimes(config: &Config) -> anyhow::Result<BTreeMap<String, engine::RuntimeHandler>> {
    let handler = |name: &String, runtime: &crate::config::Runtime| {
        let path = runtime
            .path
            .as_ref()
            .map_or_else(|| PathBuf::from(name), own_path);
        let handler = engine::RuntimeHandler {
            kind: match runtime.kind {
                RuntimeKind::Oci if path.file_name() == Some("runsc".as_ref()) => {
                    engine::RuntimeKind::Sandboxed
                }
                RuntimeKind::Sandboxed => engine::RuntimeKind::Sandboxed,
                RuntimeKind::Oci => engine::RuntimeKind::Oci,
                RuntimeKind::Shim => engine::RuntimeKind::Shim {
                    config: runtime.shim_config.as_ref().map(own_path),
                    config_type: runtime.shim_config_type.clone(),
                    config_body: runtime.shim_config_body,
                    guest_pull: runtime.guest_pull,
                    sandboxer: match runtime.sandboxer {
                        Sandboxer::Podsandbox => engine::Sandboxer::Podsandbox,
                        Sandboxer::Shim => engine::Sandboxer::Shim,
                        Sandboxer::Proxy => engine::Sandboxer::Proxy {
                            address: runtime.address.as_ref().map(own_path).unwrap_or_default(),
                            name: Some(&runtime.controller)
                                .filter(|named| !named.is_empty())
                                .unwrap_or(name)
                                .clone(),
                        },
                    },
                },
            },
            path,
            args: arguments(runtime),
            root: runtime.root.as_ref().map(own_path),
            pod_annotations: runtime.pod_annotations.clone(),
            container_annotations: runtime.container_annotations.clone(),
            rules: handler_rules(name, runtime)?,
            privileged_without_host_devices: runtime.privileged_without_host_devices,
            cni_conf_dir: runtime.cni_conf_dir.as_ref().map(own_path),
        };
        Ok((name.clone(), handler))
    };
    config
        .runtimes
        .iter()
        .map(|(name, runtime)| handler(name, runtime))
        .collect()
}

/// Returns the default annotations of a table, or an error if no pod can have them.
fn defaults(
    table: &str,
    annotations: &BTreeMap<String, String>,
) -> anyhow::Result<BTreeMap<String, String>> {
    match engine::problem_of_defaults(annotations) {
        Some(problem) => anyhow::bail!("{table}.default_annotations: {problem}"),
        None => Ok(annotations.clone()),
    }
}

/// Returns what containers of a runtime get and which annotations pods may set.
fn handler_rules(
    name: &str,
    runtime: &crate::config::Runtime,
) -> anyhow::Result<engine::HandlerRules> {
    let base = runtime.base_runtime_spec.as_ref();
    let base = base.map(|path| engine::BaseSpec::read(path)).transpose();
    Ok(engine::HandlerRules {
        base: base
            .map_err(|problem| anyhow::anyhow!("{RUNTIMES}.{name}.base_runtime_spec: {problem}"))?,
        default_annotations: defaults(&format!("{RUNTIMES}.{name}"), &runtime.default_annotations)?,
        allowed_annotations: runtime.allowed_annotations.clone(),
        cgroup_writable: runtime.cgroup_writable,
    })
}

/// Returns the arguments of a runtime. Only `orlop-shim` uses the `io` setting.
fn arguments(runtime: &crate::config::Runtime) -> Vec<String> {
    let mut args = runtime.args.clone();
    if runtime.io == StreamsBy::Streaming {
        args.extend(["--io".into(), "streaming".into()]);
    }
    args
}

fn images(config: &Config, root: &Path) -> engine::Images {
    let section = &config.images;
    let mut images = engine::Images::new(root.join("images"));
    settings::reach_registries(&mut images, section);
    images.policies = settings::policy_files(section);
    images.namespace_credentials = engine::NamespaceCredentials {
        dir: section.credentials_dir.as_ref().map(own_path),
    };
    images.keys = engine::KeyFiles {
        dir: section.decryption_keys.as_ref().map(own_path),
        providers: section.key_providers.as_ref().map(own_path),
    };
    images.store = section.store;
    images.lazy = engine::LazyImages {
        enabled: section.lazy == Laziness::Auto,
        repositories: section.lazy_repositories.clone(),
        smallest: section.lazy_min_layer.get(),
        program: beside_us("orlop-lazy"),
        run_dir: config.daemon.state.join("lazy"),
        timeout: section.lazy_timeout.get(),
        bandwidth: section.lazy_bandwidth.get(),
        cache: section.lazy_cache.get(),
        ..engine::LazyImages::default()
    };
    images.keep_blobs = section.keep_blobs;
    images.limits.image_bytes = section.max_size.get();
    images.unpack_memory = section.unpack_memory.get();
    images.abandon_after = section.abandon_after.get();
    images.pinned.clone_from(&section.pinned);
    if let Some(platform) = &section.platform {
        images.platform.clone_from(platform);
    }
    images
}

pub(super) fn network(config: &Config, root: &Path) -> engine::Network {
    let section = &config.network;
    let mut network = engine::Network::new(root.join("network"));
    network.conf_dir = section.conf_dir.to_path_buf();
    network.bin_dirs = section.bin_dirs.iter().map(own_path).collect();
    network.cache_dir = section.cache_dir.to_path_buf();
    network.in_process = section.in_process;
    network.pinned.clone_from(&section.pinned_plugins);
    network.max_networks = section.max_networks.get() as usize;
    network.status_grace = section.status_grace.get();
    network.ip_preference = section.ip_preference;
    network.conf_template = section.conf_template.as_ref().map(own_path);
    network.plugin_timeout = section.plugin_timeout.get();
    network.handler_conf_dirs = config
        .runtimes
        .values()
        .filter_map(|runtime| runtime.cni_conf_dir.as_ref().map(own_path))
        .collect();
    if !section.default_subnets.is_empty() {
        network.default_network = Some(engine::DefaultNetwork {
            name: "orlop".into(),
            bridge: section.default_bridge.clone(),
            subnets: section.default_subnets.clone(),
            data_dir: root.join("network/addresses"),
            mtu: None,
        });
    }
    network
}

fn containers(config: &Config) -> anyhow::Result<engine::Containers> {
    let section = &config.containers;
    let block_io = match &section.blockio_config {
        Some(path) => Some(
            engine::BlockIoClasses::read(path)
                .map_err(|problem| anyhow::anyhow!("containers.blockio_config: {problem}"))?,
        ),
        None => None,
    };
    let rdt = section.rdt_config.as_ref();
    let rdt = rdt.map(|path| engine::RdtClasses::read(path)).transpose();
    let timezone = section.timezone.as_deref();
    let timezone = timezone.map(engine::Timezone::find).transpose();
    Ok(engine::Containers {
        max_log_line: section.max_log_line.get() as usize,
        log_policy: section.log_full,
        log_rate: match section.log_rate.get() {
            0 => None,
            bytes => Some(u32::try_from(bytes).unwrap_or(u32::MAX)),
        },
        log_size: Some(section.log_size.get()).filter(|bytes| *bytes > 0),
        exec_output_limit: section.exec_output_limit.get() as usize,
        exec_output_memory: section.exec_output_memory.get() as usize,
        message_limit: config.grpc.max_message_size.get() as usize,
        restore_images: section.restore_images,
        restore_archives: section.restore_archives,
        policy: engine::Policy {
            pids_limit: match section.pids_limit {
                Limit::Unlimited => None,
                Limit::At(bound) => Some(bound.get().into()),
            },
            rlimits: section.ulimits.clone(),
            unprivileged_ports: section.unprivileged_ports,
            unprivileged_icmp: section.unprivileged_icmp,
            sysctls: section.sysctls.clone(),
            seccomp_when_unset: section.seccomp_when_unset,
            seccomp_deny_socketcall: section.seccomp_deny_socketcall,
            host_network_unconfined: section.host_network_unconfined,
            selinux_categories: Some(categories(section.selinux_category_range)?),
            device_ownership_from_security_context: section.device_ownership_from_security_context,
            hook_dirs: config.hooks.dirs.iter().map(own_path).collect(),
            cdi_dirs: section.cdi_dirs.iter().map(own_path).collect(),
            ignore_image_volumes: section.ignore_image_volumes,
            default_annotations: defaults("containers", &section.default_annotations)?,
            shm_size: Some(section.shm_size.get()),
            timezone: timezone
                .map_err(|problem| anyhow::anyhow!("containers.timezone: {problem}"))?,
            min_gomaxprocs: Some(u64::from(section.min_gomaxprocs)).filter(|least| *least > 0),
            exec_cpu_affinity: section.exec_cpu_affinity.clone(),
            block_io,
            rdt_classes: section.rdt_classes.clone(),
            rdt: rdt.map_err(|problem| anyhow::anyhow!("containers.rdt_config: {problem}"))?,
        },
    })
}

fn categories(range: u16) -> anyhow::Result<u16> {
    let all = 2..=engine::SELINUX_CATEGORIES;
    anyhow::ensure!(
        all.contains(&range),
        "containers.selinux_category_range: {range} is out of range; it must be between {} and {}",
        all.start(),
        all.end()
    );
    Ok(range)
}

fn plugins(config: &Config) -> Option<engine::Plugins> {
    let section = &config.nri;
    section.enable.then(|| engine::Plugins {
        runtime: ("orlop".into(), env!("CARGO_PKG_VERSION").into()),
        listen: if section.external_connections {
            engine::PluginListen::At(own_path(&section.socket))
        } else {
            engine::PluginListen::Never
        },
        plugin_dir: own_path(&section.plugin_dir),
        plugin_config_dir: own_path(&section.plugin_config_dir),
        registration_timeout: section.registration_timeout.get(),
        request_timeout: section.request_timeout.get(),
        validator: section.validator.then(|| engine::Validator {
            reject_oci_hooks: section.reject_oci_hooks,
            reject_runtime_default_seccomp: section.reject_runtime_default_seccomp,
            reject_unconfined_seccomp: section.reject_unconfined_seccomp,
            reject_custom_seccomp: section.reject_custom_seccomp,
            reject_namespaces: section.reject_namespaces,
            reject_sysctls: section.reject_sysctls,
            required_plugins: section.required_plugins.clone(),
            tolerate_missing_annotation: section
                .tolerate_missing_annotation
                .clone()
                .unwrap_or_default(),
        }),
    })
}
