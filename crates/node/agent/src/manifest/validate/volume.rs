//! Rules for volumes.

use std::collections::BTreeSet;

use orlop_kubelet_rules::pod::Quantity;

use super::super::names;
use super::super::place::Place;
use super::container::{field_reference, resource_reference};

/// The kinds of volumes that a standalone node supports.
const OWN: [&str; 7] = [
    "hostPath",
    "emptyDir",
    "secret",
    "configMap",
    "downwardAPI",
    "projected",
    "image",
];

/// Checks a pod's volumes; returns their names.
pub(super) fn check<'v>(volumes: &Place<'v>) -> BTreeSet<&'v str> {
    let mut seen = BTreeSet::new();
    for volume in volumes.items() {
        let name = volume.at("name");
        name.must(names::label);
        if !name.text().is_empty() && !seen.insert(name.text()) {
            name.wrong(format!("another volume has the name {:?}", name.text()));
        }
        source(&volume);
    }
    seen
}

fn source(volume: &Place<'_>) {
    let kinds: Vec<&str> = volume
        .value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(field, value)| *field != "name" && !value.is_null())
        .map(|(field, _)| field.as_str())
        .collect();
    let [kind] = kinds[..] else {
        return volume.wrong(format!(
            "must have exactly one volume source (found: {})",
            kinds.join(" and ")
        ));
    };
    let source = volume.at(kind);
    if !OWN.contains(&kind) {
        return source.wrong(
            "this kind of volume needs a cluster or a storage driver; use hostPath, emptyDir, \
             configMap, secret, downwardAPI, projected or image",
        );
    }
    match kind {
        "hostPath" => host_path(&source),
        "emptyDir" => {
            let medium = source.at("medium");
            let huge = medium
                .text()
                .strip_prefix("HugePages-")
                .is_some_and(|size| size.parse::<Quantity>().is_ok());
            if !huge {
                medium.one_of(&["Memory", "HugePages"]);
            }
        }
        "secret" => {
            source.at("secretName").must(names::subdomain);
            mode(&source.at("defaultMode"));
            keys(&source.at("items"));
        }
        "configMap" => {
            source.at("name").must(names::subdomain);
            mode(&source.at("defaultMode"));
            keys(&source.at("items"));
        }
        "downwardAPI" => {
            mode(&source.at("defaultMode"));
            downward(&source.at("items"));
        }
        "projected" => projected(&source),
        "image" => {
            source.at("reference").must(|_| Ok(()));
            source
                .at("pullPolicy")
                .one_of(&["Always", "IfNotPresent", "Never"]);
        }
        _ => {}
    }
}

fn host_path(source: &Place<'_>) {
    let path = source.at("path");
    path.must(|_| Ok(()));
    if path.text().split('/').any(|part| part == "..") {
        path.wrong("must not contain ..");
    }
    source.at("type").one_of(&[
        "DirectoryOrCreate",
        "Directory",
        "FileOrCreate",
        "File",
        "Socket",
        "CharDevice",
        "BlockDevice",
    ]);
}

fn projected(projected: &Place<'_>) {
    mode(&projected.at("defaultMode"));
    for source in projected.at("sources").items() {
        let kinds = [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ];
        match source.exactly_one(&kinds) {
            Some(kind @ ("secret" | "configMap")) => {
                source.at(kind).at("name").must(names::subdomain);
                keys(&source.at(kind).at("items"));
            }
            Some("downwardAPI") => downward(&source.at("downwardAPI").at("items")),
            Some(kind) => source
                .at(kind)
                .wrong("needs an API server, which a standalone node does not have"),
            None => {}
        }
    }
}

fn keys(items: &Place<'_>) {
    for item in items.items() {
        item.at("key").must(|_| Ok(()));
        within(&item.at("path"));
        mode(&item.at("mode"));
    }
}

fn downward(items: &Place<'_>) {
    for item in items.items() {
        within(&item.at("path"));
        mode(&item.at("mode"));
        match item.exactly_one(&["fieldRef", "resourceFieldRef"]) {
            Some("fieldRef") => field_reference(&item.at("fieldRef"), false),
            Some(_) => {
                let reference = item.at("resourceFieldRef");
                reference.at("containerName").must(names::label);
                resource_reference(&reference);
            }
            None => {}
        }
    }
}

fn mode(mode: &Place<'_>) {
    mode.within(0, 0o777);
}

/// Checks a path within a volume.
fn within(path: &Place<'_>) {
    path.must(|text| {
        if text.starts_with('/')
            || text.split('/').any(|part| part == "..")
            || text.starts_with("..")
        {
            Err("must be a path inside the volume, without ..")
        } else {
            Ok(())
        }
    });
}

/// Checks a container's volume mounts.
pub(super) fn mounts(container: &Place<'_>, volumes: &BTreeSet<&str>) {
    let mut seen = BTreeSet::new();
    for mount in container.at("volumeMounts").items() {
        let name = mount.at("name");
        name.must(|_| Ok(()));
        if !name.text().is_empty() && !volumes.contains(name.text()) {
            name.wrong(format!("volume {:?} does not exist", name.text()));
        }
        let path = mount.at("mountPath");
        path.must(|text| {
            if text.contains(':') {
                Err("must not contain :")
            } else {
                Ok(())
            }
        });
        if !path.text().is_empty() && !seen.insert(path.text()) {
            path.wrong(format!("another volume is mounted at {:?}", path.text()));
        }
        for field in ["subPath", "subPathExpr"] {
            if !mount.at(field).text().is_empty() {
                within(&mount.at(field));
            }
        }
        if !mount.at("subPath").text().is_empty() && !mount.at("subPathExpr").text().is_empty() {
            mount
                .at("subPathExpr")
                .wrong("must not be set together with subPath");
        }
        let propagation = mount.at("mountPropagation");
        propagation.one_of(&["None", "HostToContainer", "Bidirectional"]);
        let privileged = container.at("securityContext").at("privileged").is_true();
        if propagation.text() == "Bidirectional" && !privileged {
            propagation.wrong("Bidirectional is allowed only for privileged containers");
        }
        let recursive = mount.at("recursiveReadOnly");
        recursive.one_of(&["Disabled", "IfPossible", "Enabled"]);
        if matches!(recursive.text(), "IfPossible" | "Enabled") {
            if !mount.at("readOnly").is_true() {
                recursive.wrong("needs readOnly: true");
            }
            if !matches!(propagation.text(), "" | "None") {
                recursive.wrong("needs mountPropagation None");
            }
        }
    }
}
