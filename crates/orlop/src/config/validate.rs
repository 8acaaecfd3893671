//! What no single key can tell: values that do not go together.

use super::schema::{Config, RUNTIMES};
use super::values::{Backend, RuntimeKind, Sandboxer};

/// The runtimes that are looked for where none is configured.
const FOUND_BY_ITSELF: [&str; 2] = ["crun", "runc"];

/// Every contradiction, with the key to change.
pub(super) fn validate(config: &Config) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    let mut problem = |key: &str, message: String| problems.push((key.to_owned(), message));

    let daemon = &config.daemon;
    if daemon.root.starts_with(&*daemon.state) || daemon.state.starts_with(&*daemon.root) {
        problem(
            "state",
            format!(
                "{} and the root {} lie within each other: one must survive a reboot, the other \
                 must not",
                daemon.state, daemon.root,
            ),
        );
    }
    if let Some(name) = &daemon.default_runtime
        && !config.runtimes.contains_key(name)
        && !(config.runtimes.is_empty() && FOUND_BY_ITSELF.contains(&name.as_str()))
    {
        problem(
            "default_runtime",
            format!("there is no table [{RUNTIMES}.{name}]"),
        );
    }
    if config.grpc.listen.is_empty() {
        problem("grpc.listen", "must name a socket".to_owned());
    }
    if config.traces.otlp.is_some() && !crate::otlp::BUILT_IN {
        let message = "this build can't export traces: build orlop with `--features otlp`";
        problem("traces.otlp", message.to_owned());
    }
    let streaming = &config.streaming;
    match (&streaming.tls_cert, &streaming.tls_key) {
        (Some(_), None) => problem("streaming.tls_cert", "also needs `tls_key`".to_owned()),
        (None, Some(_)) => problem("streaming.tls_key", "also needs `tls_cert`".to_owned()),
        (None, None) if !streaming.address.is_loopback() => problem(
            "streaming.address",
            format!(
                "{} is open to other machines: set `tls_cert` and `tls_key`, or use a loopback \
                 address",
                streaming.address,
            ),
        ),
        _ => {}
    }
    if daemon.backend == Backend::Docker {
        let images = &config.images;
        for (key, policy) in [
            ("images.signature_policy", &images.signature_policy),
            ("images.signature_policy_dir", &images.signature_policy_dir),
        ] {
            if policy.is_some() {
                let message = "the docker backend can't hold images to it: remove it, or take the \
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
                "must be longer than that: no plugin could answer".to_owned(),
            );
        }
    }
    for (name, runtime) in &config.runtimes {
        if !is_handler_name(name) {
            problem(
                &format!("{RUNTIMES}.{name}"),
                "a runtime's name is made of lower-case letters, digits, `-` and `.`".to_owned(),
            );
        }
        let key = |key: &str| format!("{RUNTIMES}.{name}.{key}");
        if runtime.sandboxer != Sandboxer::Podsandbox && runtime.kind != RuntimeKind::Shim {
            let message = "is for runtimes of `kind = \"shim\"` only";
            problem(&key("sandboxer"), message.to_owned());
        }
        if (runtime.sandboxer == Sandboxer::Proxy) != runtime.address.is_some() {
            let message = "is the socket of a controller: it goes with `sandboxer = \"proxy\"`, and \
                           that needs it";
            problem(&key("address"), message.to_owned());
        }
    }
    problems
}

/// Kubernetes takes a DNS label or subdomain for a RuntimeClass handler.
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
}
