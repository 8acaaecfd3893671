//! Rules for containers.

use std::collections::{BTreeMap, BTreeSet};

use orlop_kubelet_rules::pod::Quantity;

use super::super::names;
use super::super::place::Place;
use super::pod::address;
use super::{probe, security, volume};

/// The role of a container in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Init,
    Sidecar,
    Regular,
    Ephemeral,
}

/// Checks all containers of a pod.
pub(super) fn check_all(spec: &Place<'_>, volumes: &BTreeSet<&str>) {
    if spec.at("containers").items().is_empty() {
        spec.at("containers")
            .wrong("must have at least one container");
    }
    let mut names_seen = BTreeSet::new();
    let mut ports_seen = BTreeSet::new();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.at(list).items() {
            let name = container.at("name");
            name.must(names::label);
            if !name.text().is_empty() && !names_seen.insert(name.text()) {
                name.wrong(format!("another container has the name {:?}", name.text()));
            }
            let always = container.at("restartPolicy").text() == "Always";
            let part = match list {
                "initContainers" if always => Part::Sidecar,
                "initContainers" => Part::Init,
                "containers" => Part::Regular,
                _ => Part::Ephemeral,
            };
            check(spec, &container, part, volumes, &mut ports_seen);
        }
    }
    for container in spec.at("ephemeralContainers").items() {
        let target = container.at("targetContainerName");
        if !target.text().is_empty() && !names_seen.contains(target.text()) {
            target.wrong(format!("container {:?} does not exist", target.text()));
        }
    }
}

fn check<'v>(
    spec: &Place<'v>,
    container: &Place<'v>,
    part: Part,
    volumes: &BTreeSet<&str>,
    ports_seen: &mut BTreeSet<(i64, String, String)>,
) {
    let image = container.at("image");
    if image.text().is_empty() {
        image.wrong("is missing");
    } else if image.text().trim() != image.text() {
        image.wrong("must not begin or end with white space");
    }
    container
        .at("imagePullPolicy")
        .one_of(&["Always", "IfNotPresent", "Never"]);
    container
        .at("terminationMessagePolicy")
        .one_of(&["File", "FallbackToLogsOnError"]);
    ports(spec, container, ports_seen);
    environment(spec, container, volumes);
    volume::mounts(container, volumes);
    if !container.at("volumeDevices").items().is_empty() {
        let text = "needs a persistent volume, which a standalone node does not support";
        container.at("volumeDevices").wrong(text);
    }
    resources(&container.at("resources"));
    for policy in container.at("resizePolicy").items() {
        policy.at("resourceName").one_of(&["cpu", "memory"]);
        policy
            .at("restartPolicy")
            .one_of(&["NotRequired", "RestartContainer"]);
    }
    restarts(container, part);
    security::container(spec, container);
    match part {
        Part::Init => {
            for field in [
                "lifecycle",
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
            ] {
                if container.at(field).is_there() {
                    container.at(field).wrong(
                        "is not allowed in an init container unless its restartPolicy is Always",
                    );
                }
            }
        }
        Part::Sidecar | Part::Regular => {
            probe::lifecycle(container);
            probe::probes(container);
        }
        Part::Ephemeral => {
            let fields = [
                "lifecycle",
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
                "ports",
            ];
            for field in fields {
                if container.at(field).is_there() {
                    container
                        .at(field)
                        .wrong("is not allowed in an ephemeral container");
                }
            }
        }
    }
}

fn restarts(container: &Place<'_>, part: Part) {
    let policy = container.at("restartPolicy");
    policy.one_of(&["Always", "OnFailure", "Never"]);
    if part == Part::Ephemeral && policy.is_there() {
        policy.wrong("is not allowed in an ephemeral container");
    }
    let rules = container.at("restartPolicyRules");
    if rules.is_there() && !policy.is_there() {
        rules
            .wrong("needs a restartPolicy of the container, which applies to all other exit codes");
    }
    if rules.items().len() > 20 {
        rules.wrong("must not have more than 20 rules");
    }
    for rule in rules.items() {
        rule.at("action").must(|_| Ok(()));
        rule.at("action")
            .one_of(&["Restart", "RestartAllContainers"]);
        let codes = rule.at("exitCodes");
        if !codes.is_there() {
            codes.wrong("is missing");
            continue;
        }
        codes.at("operator").must(|_| Ok(()));
        codes.at("operator").one_of(&["In", "NotIn"]);
        if codes.at("values").items().len() > 255 {
            codes
                .at("values")
                .wrong("must not have more than 255 values");
        }
        for value in codes.at("values").items() {
            value.within(0, 255);
        }
    }
}

fn ports<'v>(spec: &Place<'v>, container: &Place<'v>, seen: &mut BTreeSet<(i64, String, String)>) {
    let mut named = BTreeSet::new();
    for port in container.at("ports").items() {
        let name = port.at("name");
        name.may(names::port);
        if !name.text().is_empty() && !named.insert(name.text()) {
            name.wrong(format!("another port has the name {:?}", name.text()));
        }
        let number = port.at("containerPort");
        if number.number().is_none() {
            number.wrong("is missing");
        }
        number.within(1, 65535);
        let host = port.at("hostPort");
        // Zero means unset.
        if host.number() != Some(0) {
            host.within(1, 65535);
        }
        port.at("protocol").one_of(&["TCP", "UDP", "SCTP"]);
        address(&port.at("hostIP"), false);
        let Some(host_port) = host.number().filter(|it| *it != 0) else {
            continue;
        };
        if spec.at("hostNetwork").is_true() && Some(host_port) != number.number() {
            host.wrong("must be the same as containerPort when hostNetwork is true");
        }
        let address = match port.at("hostIP").text() {
            "" => "0.0.0.0",
            address => address,
        };
        let protocol = port.at("protocol").text();
        if !seen.insert((host_port, protocol.to_owned(), address.to_owned())) {
            host.wrong(format!(
                "another port of this pod uses host port {host_port}/{protocol}"
            ));
        }
    }
}

fn environment(spec: &Place<'_>, container: &Place<'_>, volumes: &BTreeSet<&str>) {
    for variable in container.at("env").items() {
        variable.at("name").must(variable_name);
        let from = variable.at("valueFrom");
        if !from.is_there() {
            continue;
        }
        if !variable.at("value").text().is_empty() {
            from.wrong("must not be set together with value");
        }
        let sources = [
            "fieldRef",
            "resourceFieldRef",
            "configMapKeyRef",
            "secretKeyRef",
            "fileKeyRef",
        ];
        match from.exactly_one(&sources) {
            Some("fieldRef") => field_reference(&from.at("fieldRef"), true),
            Some("resourceFieldRef") => {
                resource_reference(&from.at("resourceFieldRef"));
            }
            Some(source @ ("configMapKeyRef" | "secretKeyRef")) => {
                from.at(source).at("name").must(names::subdomain);
                from.at(source).at("key").must(names::data_key);
            }
            Some("fileKeyRef") => {
                file_reference(spec, &from.at("fileKeyRef"), volumes);
            }
            _ => {}
        }
    }
    for from in container.at("envFrom").items() {
        if let Some(source) = from.exactly_one(&["configMapRef", "secretRef"]) {
            from.at(source).at("name").must(names::subdomain);
        }
    }
}

fn variable_name(text: &str) -> Result<(), &'static str> {
    let fine = text
        .bytes()
        .all(|byte| (0x20..0x7f).contains(&byte) && byte != b'=');
    if fine {
        Ok(())
    } else {
        Err("must consist of printable characters other than =")
    }
}

/// Checks a reference to a variable in a file that another container writes.
fn file_reference(spec: &Place<'_>, reference: &Place<'_>, volumes: &BTreeSet<&str>) {
    reference.at("key").must(variable_name);
    reference.at("path").must(|text| {
        if text.split('/').any(|part| part == "..") {
            Err("must not contain ..")
        } else {
            Ok(())
        }
    });
    let volume = reference.at("volumeName");
    volume.must(names::label);
    if volume.text().is_empty() {
        return;
    }
    if !volumes.contains(volume.text()) {
        return volume.wrong(format!("volume {:?} does not exist", volume.text()));
    }
    let own = |it: &Place<'_>| it.at("name").text() == volume.text();
    let named = spec.at("volumes").items().into_iter().find(own);
    if named.is_some_and(|it| !it.at("emptyDir").is_there()) {
        volume.wrong("must be an emptyDir volume, because an init container writes the file there");
    }
}

/// Checks a reference to a pod field, in the environment or in a file.
pub(super) fn field_reference(field: &Place<'_>, environment: bool) {
    let path = field.at("fieldPath");
    if path.text().is_empty() {
        return path.wrong("is missing");
    }
    let version = field.at("apiVersion");
    if !matches!(version.text(), "" | "v1") {
        version.wrong(format!("must be v1, not {:?}", version.text()));
    }
    let (base, key) = match path.text().split_once("['") {
        Some((base, key)) => (base, key.strip_suffix("']").filter(|key| !key.is_empty())),
        None => (path.text(), None),
    };
    let whole = base == path.text();
    let fine = match base {
        "metadata.name" | "metadata.namespace" | "metadata.uid" => whole,
        "metadata.labels" | "metadata.annotations" => key.is_some() || whole && !environment,
        "spec.nodeName"
        | "spec.serviceAccountName"
        | "status.hostIP"
        | "status.hostIPs"
        | "status.podIP"
        | "status.podIPs" => whole && environment,
        _ => false,
    };
    if !fine {
        path.wrong(format!("{:?} is not a supported field path", path.text()));
    }
}

/// Checks a reference to a container's resources.
pub(super) fn resource_reference(reference: &Place<'_>) {
    let resource = reference.at("resource");
    let text = resource.text();
    let fine = matches!(
        text,
        "limits.cpu"
            | "limits.memory"
            | "limits.ephemeral-storage"
            | "requests.cpu"
            | "requests.memory"
            | "requests.ephemeral-storage"
    ) || text.starts_with("limits.hugepages-")
        || text.starts_with("requests.hugepages-");
    if text.is_empty() {
        resource.wrong("is missing");
    } else if !fine {
        resource.wrong(format!("{text:?} is not a resource of a container"));
    }
}

/// Checks requests and limits.
pub(super) fn resources(resources: &Place<'_>) {
    let mut limits = BTreeMap::new();
    for (name, place) in resources.at("limits").entries() {
        if let Some(amount) = amount(name, &place) {
            limits.insert(name, amount);
        }
    }
    for (name, place) in resources.at("requests").entries() {
        let Some(amount) = amount(name, &place) else {
            continue;
        };
        match limits.get(name) {
            Some(limit) if amount > *limit => {
                place.wrong(format!("{amount} is more than the limit of {limit}"));
            }
            Some(limit) if name.starts_with("hugepages-") && amount != *limit => {
                place.wrong("must be the same as the limit");
            }
            None if name.starts_with("hugepages-") => place.wrong("needs a limit of the same size"),
            _ => {}
        }
    }
    if !resources.at("claims").items().is_empty() {
        let text = "needs a cluster; a standalone node cannot allocate resource claims";
        resources.at("claims").wrong(text);
    }
}

/// Checks an amount of a resource.
pub(super) fn amount(name: &str, place: &Place<'_>) -> Option<Quantity> {
    let known = matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name
            .strip_prefix("hugepages-")
            .is_some_and(|size| size.parse::<Quantity>().is_ok());
    if !known {
        place.wrong(format!(
            "{name:?} is not a resource of this node; use cpu, memory, ephemeral-storage or \
             hugepages-<size>"
        ));
        return None;
    }
    let amount: Quantity = place.text().parse().ok()?;
    if amount < Quantity::default() {
        place.wrong("must not be negative");
        return None;
    }
    Some(amount)
}
