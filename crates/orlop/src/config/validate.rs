//! Checks across keys: values that do not fit together.

use super::schema::{Config, RUNTIMES};
use super::values::{Backend, MetricsEndpoint, RuntimeKind, Sandboxer, StreamsBy, TraceProtocol};

/// The runtimes that are searched if none is configured.
const FOUND_BY_ITSELF: [&str; 3] = ["orlop-run", "crun", "runc"];

/// Returns every conflict, with the key to change.
pub(super) fn validate(config: &Config) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    let mut problem = |key: &str, message: String| problems.push((key.to_owned(), message));

    let daemon = &config.daemon;
    if daemon.root.starts_with(&*daemon.state) || daemon.state.starts_with(&*daemon.root) {
        problem(
            "state",
            format!(
                "the state directory {} and the root directory {} must not contain each other: the \
                 root must survive a reboot, the state must not",
                daemon.state, daemon.root,
            ),
        );
    }
    if let Some(root) = &config.containers.root {
        if root.starts_with(&*daemon.state) || daemon.state.starts_with(&**root) {
            problem(
                "containers.root",
                format!(
                    "the root directory {root} and the state directory {} must not contain each \
                     other: the root must survive a reboot, the state must not",
                    daemon.state,
                ),
            );
        }
        if daemon.backend == Backend::Docker {
            let message = "the Docker Engine chooses where it stores containers; remove this key, \
                           or use the backend `native`";
            problem("containers.root", message.to_owned());
        }
    }
    if let Some(name) = &daemon.default_runtime
        && !config.runtimes.contains_key(name)
        && !FOUND_BY_ITSELF.contains(&name.as_str())
    {
        problem(
            "default_runtime",
            format!("the table [{RUNTIMES}.{name}] is missing"),
        );
    }
    if daemon.backend == Backend::Docker && !cfg!(feature = "docker") {
        let message =
            "this build has no Docker backend; use a build with the cargo feature `docker`";
        problem("backend", message.to_owned());
    }
    if config.grpc.listen.is_empty() {
        problem("grpc.listen", "must contain at least one socket".to_owned());
    }
    let traces = &config.traces;
    if let Some(to) = &traces.otlp {
        if traces.protocol == TraceProtocol::Grpc && to.has_path() {
            let message =
                format!("{to} has a path, which gRPC does not allow; write http://HOST:PORT");
            problem("traces.otlp", message);
        }
        if traces.ca.is_some() && !to.is_tls {
            let message = format!("{to} does not use TLS; write https://, or remove this key");
            problem("traces.ca", message);
        }
        if traces.headers_file.is_some() && !to.is_tls && !to.is_loopback() {
            let message = format!(
                "the headers would go to {to} without encryption; write https://, or remove this \
                 key"
            );
            problem("traces.headers_file", message);
        }
    }
    let metrics = &config.metrics;
    let is_tls = metrics.tls_cert.is_some();
    if is_tls != metrics.tls_key.is_some() {
        let message = "`tls_cert` and `tls_key` must be set together";
        problem("metrics.tls_cert", message.to_owned());
    }
    if metrics.client_ca.is_some() && !is_tls {
        let message = "client certificates need TLS; set `tls_cert` and `tls_key`";
        problem("metrics.client_ca", message.to_owned());
    }
    if let Some(MetricsEndpoint::Tcp(address)) = &metrics.listen
        && !address.ip().is_loopback()
        && !(is_tls && (metrics.client_ca.is_some() || metrics.token_file.is_some()))
    {
        let message = format!(
            "{address} is open to other machines; set `tls_cert` and `tls_key`, and `client_ca` or \
             `token_file`; or use a loopback address or a unix socket"
        );
        problem("metrics.listen", message);
    }
    let web = &config.web;
    if web.tls_cert.is_some() != web.tls_key.is_some() {
        let message = "`tls_cert` and `tls_key` must be set together";
        problem("web.tls_cert", message.to_owned());
    }
    if let Some(MetricsEndpoint::Tcp(address)) = &web.listen
        && !address.ip().is_loopback()
        && web.tls_cert.is_none()
    {
        let message = format!(
            "{address} is open to other machines; set `tls_cert` and `tls_key`, or use a loopback \
             address, which remote users can reach with `ssh -L`"
        );
        problem("web.listen", message);
    }
    let streaming = &config.streaming;
    match (&streaming.tls_cert, &streaming.tls_key) {
        (Some(_), None) => problem("streaming.tls_cert", "also needs `tls_key`".to_owned()),
        (None, Some(_)) => problem("streaming.tls_key", "also needs `tls_cert`".to_owned()),
        (None, None) if !streaming.address.is_loopback() => problem(
            "streaming.address",
            format!(
                "{} is open to other machines; set `tls_cert` and `tls_key`, or use a loopback \
                 address",
                streaming.address,
            ),
        ),
        _ => {}
    }
    if streaming.client_ca.is_some() && streaming.tls_cert.is_none() {
        let message = "client certificates need TLS; set `tls_cert` and `tls_key`";
        problem("streaming.client_ca", message.to_owned());
    }
    if config.containers.shm_size.get() == 0 {
        let message = "must be greater than 0, because the kernel treats 0 as no limit";
        problem("containers.shm_size", message.to_owned());
    }
    if daemon.backend == Backend::Docker {
        let images = &config.images;
        if images.credentials_dir.is_some() {
            let message = "with the docker backend, images are available to all namespaces; remove \
                           this key, or use the backend `native`";
            problem("images.credentials_dir", message.to_owned());
        }
        let is_judged = images.signature_policy.is_some() || images.signature_policy_dir.is_some();
        if images.registries_conf.is_some() && !is_judged {
            let message = "with the docker backend, this key is only used to check images against \
                           a policy; remove it, set `signature_policy` too, or use the backend \
                           `native`";
            problem("images.registries_conf", message.to_owned());
        }
        for (key, path) in [
            ("images.decryption_keys", &images.decryption_keys),
            ("images.key_providers", &images.key_providers),
        ] {
            if path.is_some() {
                let message = "the docker backend does not support this key; remove it, or use the \
                               backend `native`";
                problem(key, message.to_owned());
            }
        }
    }
    for (key, timeout) in [
        ("nri.registration_timeout", config.nri.registration_timeout),
        ("nri.request_timeout", config.nri.request_timeout),
    ] {
        if timeout.nonzero().is_none() {
            problem(
                key,
                "must be greater than 0; otherwise no plugin can answer in time".to_owned(),
            );
        }
    }
    for (name, runtime) in &config.runtimes {
        if !is_handler_name(name) {
            problem(
                &format!("{RUNTIMES}.{name}"),
                "the name of a runtime may contain only lower-case letters, digits, `-` and `.`"
                    .to_owned(),
            );
        }
        let key = |key: &str| format!("{RUNTIMES}.{name}.{key}");
        if runtime.sandboxer != Sandboxer::Podsandbox && runtime.kind != RuntimeKind::Shim {
            problem(&key("sandboxer"), FOR_SHIMS.to_owned());
        }
        let typed = !runtime.shim_config_type.is_empty();
        for (name, set) in [
            ("shim_config_type", typed),
            ("shim_config_body", runtime.shim_config_body),
            ("guest_pull", runtime.guest_pull),
            ("io", runtime.io != StreamsBy::Fifo),
        ] {
            if set && runtime.kind != RuntimeKind::Shim {
                problem(&key(name), FOR_SHIMS.to_owned());
            }
        }
        if runtime.shim_config_body
            && (runtime.shim_config.is_none()
                || runtime.shim_config_type == "containerd.runc.v1.Options")
        {
            let message = "needs `shim_config`, and does not work with options of the type \
                           `containerd.runc.v1.Options`";
            problem(&key("shim_config_body"), message.to_owned());
        }
        if (runtime.sandboxer == Sandboxer::Proxy) != runtime.address.is_some() {
            let message = "is the socket of a sandbox controller; `address` and `sandboxer = \
                           \"proxy\"` must be set together";
            problem(&key("address"), message.to_owned());
        }
    }
    problems
}

const FOR_SHIMS: &str = "is only for runtimes of `kind = \"shim\"`";

/// Kubernetes accepts a DNS label or subdomain as a RuntimeClass handler.
fn is_handler_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::super::schema::Runtime;
    use super::*;

    #[test]
    fn who_makes_sandboxes_goes_with_the_kind_of_the_runtime() {
        let refused = |kind, sandboxer, address: Option<&str>| {
            let runtime = Runtime {
                kind,
                sandboxer,
                address: address.map(|path| path.parse().unwrap()),
                ..Runtime::default()
            };
            let mut config = Config::default();
            config.runtimes.insert("kata".to_owned(), runtime);
            let problems = validate(&config).into_iter().map(|(key, _)| key);
            problems.collect::<Vec<_>>()
        };
        let socket = Some("/run/x.sock");
        for (kind, sandboxer, address) in [
            (RuntimeKind::Oci, Sandboxer::Podsandbox, None),
            (RuntimeKind::Shim, Sandboxer::Podsandbox, None),
            (RuntimeKind::Shim, Sandboxer::Shim, None),
            (RuntimeKind::Shim, Sandboxer::Proxy, socket),
        ] {
            let none: [&str; 0] = [];
            assert_eq!(refused(kind, sandboxer, address), none, "{sandboxer:?}");
        }
        for (kind, sandboxer, address, key) in [
            (RuntimeKind::Oci, Sandboxer::Shim, None, "sandboxer"),
            (
                RuntimeKind::Sandboxed,
                Sandboxer::Proxy,
                socket,
                "sandboxer",
            ),
            (RuntimeKind::Shim, Sandboxer::Proxy, None, "address"),
            (RuntimeKind::Shim, Sandboxer::Shim, socket, "address"),
        ] {
            let key = format!("runtimes.kata.{key}");
            assert_eq!(refused(kind, sandboxer, address), [key], "{kind:?}");
        }
    }
    #[test]
    fn what_is_for_shims_is_refused_for_others_and_where_it_means_nothing() {
        let refused = |change: fn(&mut Runtime)| {
            let mut runtime = Runtime::default();
            change(&mut runtime);
            let mut config = Config::default();
            config.runtimes.insert("kata".to_owned(), runtime);
            let problems = validate(&config).into_iter().map(|(key, _)| key);
            problems.collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        let all: fn(&mut Runtime) = |runtime| {
            runtime.kind = RuntimeKind::Shim;
            runtime.guest_pull = true;
            runtime.shim_config = Some("/etc/x".parse().unwrap());
            runtime.shim_config_type = "io.containerd.runsc.v1.options".to_owned();
            runtime.shim_config_body = true;
        };
        assert_eq!(refused(all), none);
        let pull: fn(&mut Runtime) = |runtime| runtime.guest_pull = true;
        assert_eq!(refused(pull), ["runtimes.kata.guest_pull"]);
        let kind: fn(&mut Runtime) = |runtime| runtime.shim_config_type = "x".to_owned();
        assert_eq!(refused(kind), ["runtimes.kata.shim_config_type"]);
        let nothing: fn(&mut Runtime) = |runtime| {
            runtime.kind = RuntimeKind::Shim;
            runtime.shim_config_body = true;
        };
        assert_eq!(refused(nothing), ["runtimes.kata.shim_config_body"]);
        let of_runc: fn(&mut Runtime) = |runtime| {
            runtime.kind = RuntimeKind::Shim;
            runtime.shim_config = Some("/etc/x".parse().unwrap());
            runtime.shim_config_type = "containerd.runc.v1.Options".to_owned();
            runtime.shim_config_body = true;
        };
        assert_eq!(refused(of_runc), ["runtimes.kata.shim_config_body"]);
    }

    #[test]
    fn streams_that_are_served_go_with_shims() {
        for (kind, refused) in [
            (RuntimeKind::Oci, &["runtimes.kata.io"][..]),
            (RuntimeKind::Shim, &[]),
        ] {
            let runtime = Runtime {
                kind,
                io: StreamsBy::Streaming,
                ..Runtime::default()
            };
            let mut config = Config::default();
            config.runtimes.insert("kata".to_owned(), runtime);
            let problems = validate(&config).into_iter().map(|(key, _)| key);
            assert_eq!(problems.collect::<Vec<_>>(), refused, "{kind:?}");
        }
    }
}
