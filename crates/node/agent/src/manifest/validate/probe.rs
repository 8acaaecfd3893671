//! Rules for probes and hooks.

use super::super::names;
use super::super::place::Place;

/// Checks a container's probes.
pub(super) fn probes(container: &Place<'_>) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.at(name);
        if !probe.is_there() {
            continue;
        }
        handler(&probe, &["exec", "httpGet", "tcpSocket", "grpc"]);
        probe
            .at("initialDelaySeconds")
            .within(0, i64::from(i32::MAX));
        for field in [
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            probe.at(field).within(1, i64::from(i32::MAX));
        }
        let grace = probe.at("terminationGracePeriodSeconds");
        if name == "readinessProbe" {
            if grace.is_there() {
                grace.wrong("is not allowed in a readiness probe, which never stops a container");
            }
        } else {
            grace.within(1, i64::MAX);
            if probe
                .at("successThreshold")
                .number()
                .is_some_and(|it| it != 1)
            {
                probe
                    .at("successThreshold")
                    .wrong("must be 1 for a liveness or startup probe");
            }
        }
    }
}

/// Checks a container's hooks.
pub(super) fn lifecycle(container: &Place<'_>) {
    let lifecycle = container.at("lifecycle");
    for name in ["postStart", "preStop"] {
        let hook = lifecycle.at(name);
        if hook.is_there() {
            handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"]);
            if hook.at("tcpSocket").is_there() {
                hook.at("tcpSocket")
                    .doubt("has no effect, as in Kubernetes");
            }
        }
    }
    let signal = lifecycle.at("stopSignal");
    if !signal.text().is_empty() && !signal.text().starts_with("SIG") {
        signal.wrong(format!(
            "{:?} is not a signal name such as SIGTERM",
            signal.text()
        ));
    }
}

fn handler(handler: &Place<'_>, kinds: &[&str]) {
    let Some(kind) = handler.exactly_one(kinds) else {
        return;
    };
    let action = handler.at(kind);
    match kind {
        "exec" if action.at("command").items().is_empty() => {
            action.at("command").wrong("must contain a command");
        }
        "httpGet" => {
            port(&action.at("port"));
            action.at("scheme").one_of(&["HTTP", "HTTPS"]);
            for header in action.at("httpHeaders").items() {
                let name = header.at("name");
                let token =
                    |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte);
                if name.text().is_empty() || !name.text().bytes().all(token) {
                    name.wrong(format!("{:?} is not a header name", name.text()));
                }
            }
        }
        "tcpSocket" => port(&action.at("port")),
        "grpc" => {
            if !action.at("port").is_there() {
                action.at("port").wrong("is missing");
            }
            action.at("port").within(1, 65535);
        }
        "sleep" => action.at("seconds").within(0, i64::from(i32::MAX)),
        _ => {}
    }
}

/// Checks a port given by number or name.
fn port(port: &Place<'_>) {
    match port.number() {
        Some(_) => port.within(1, 65535),
        None => port.must(names::port),
    }
}
