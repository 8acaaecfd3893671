//! The method of a call, as in metrics and logs.

use orlop_cri_api::Rpc;

/// A gRPC method. Unknown paths share one name, so that a client cannot fill the memory with metrics of invented names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Method {
    pub(crate) service: &'static str,
    pub(crate) name: &'static str,
}

const UNKNOWN: Method = Method {
    service: "unknown",
    name: "unknown",
};

/// Services besides the CRI.
const EXTENSIONS: [(&str, &[&str]); 7] = [
    (
        "orlop.v1.Images",
        &[
            "WatchPulls",
            "ImportImages",
            "ExportImages",
            "VerifyImages",
            "JudgeImage",
            "ResolveImage",
            "CollectGarbage",
            "FetchImages",
            "ListImagesHere",
            "WatchReadFailures",
        ],
    ),
    (
        "orlop.v1.Networks",
        &["ListNetworks", "ListAttachments", "CollectNetworkGarbage"],
    ),
    ("orlop.v1.Containers", &["ListChanges"]),
    (
        "orlop.v1.Inspection",
        &["ListTraces", "ListEvents", "GetState", "Examine"],
    ),
    (
        "orlop.v1.Admin",
        &[
            "GetLogLevel",
            "SetLogLevel",
            "Reload",
            "Tasks",
            "Memory",
            "Profile",
        ],
    ),
    (
        "containerd.services.sandbox.v1.Controller",
        &[
            "Create", "Start", "Platform", "Stop", "Wait", "Status", "Shutdown", "Metrics",
            "Update",
        ],
    ),
    (
        "containerd.services.sandbox.v1.Store",
        &["Create", "Update", "Delete", "List", "Get"],
    ),
];

const CRI_SERVICES: [&str; 4] = [
    "runtime.v1.RuntimeService",
    "runtime.v1.ImageService",
    "runtime.v1alpha2.RuntimeService",
    "runtime.v1alpha2.ImageService",
];

impl Method {
    /// Returns the method at a path such as `/runtime.v1.RuntimeService/Version`.
    pub(super) fn of(path: &str) -> Self {
        let Some((service, name)) = path.strip_prefix('/').and_then(|path| path.split_once('/'))
        else {
            return UNKNOWN;
        };
        if let Some(service) = CRI_SERVICES.into_iter().find(|known| *known == service) {
            return Rpc::from_name(name).map_or(UNKNOWN, |rpc| Self {
                service,
                name: rpc.name(),
            });
        }
        EXTENSIONS
            .into_iter()
            .find(|(known, _)| *known == service)
            .and_then(|(service, names)| {
                let name = names.iter().find(|known| **known == name)?;
                Some(Self { service, name })
            })
            .unwrap_or(UNKNOWN)
    }
}

/// Prefixes of methods that create, change or end something.
const DOING: [&str; 9] = [
    "Run",
    "Stop",
    "Remove",
    "Create",
    "Start",
    "Pull",
    "Checkpoint",
    "Restore",
    "Import",
];

impl Method {
    /// Returns whether calls of it leave much freed memory behind. Calls that kubelets repeat every other second
    /// (lists, states, commands) are excluded.
    pub(super) fn takes_memory(self) -> bool {
        DOING.iter().any(|doing| self.name.starts_with(doing))
    }

    /// Returns whether the client sets the duration of a call, so that it never counts as slow.
    pub(super) fn lasts_as_asked(self) -> bool {
        self.name == "Profile"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_made_up_share_one() {
        for path in [
            "/runtime.v1.RuntimeService/Evil",
            "/a/b",
            "/",
            "x",
            "",
            "/runtime.v1.RuntimeService/Version/x",
        ] {
            assert_eq!(Method::of(path), UNKNOWN, "{path}");
        }
        let version = Method::of("/runtime.v1alpha2.RuntimeService/Version");
        assert_eq!(version.service, "runtime.v1alpha2.RuntimeService");
        assert_eq!(version.name, "Version");
        assert_eq!(Method::of("/orlop.v1.Admin/Reload").name, "Reload");
    }

    #[test]
    fn methods_beside_the_cri_are_those_of_their_definitions() {
        let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../cri/api/proto/orlop/v1");
        let mut defined = BTreeSet::new();
        for file in std::fs::read_dir(definitions).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let mut service = "";
            for line in text.lines().map(str::trim_start) {
                if let Some(rest) = line.strip_prefix("service ") {
                    service = rest.trim_end_matches(" {");
                } else if let Some((name, _)) =
                    line.strip_prefix("rpc ").and_then(|it| it.split_once('('))
                {
                    defined.insert(format!("orlop.v1.{service}/{name}"));
                }
            }
        }
        // The service of the daemon itself has no protobuf definition.
        let known = EXTENSIONS.into_iter().filter(|(service, _)| {
            service.starts_with("orlop.v1.") && *service != "orlop.v1.Admin"
        });
        let known = known
            .flat_map(|(service, names)| names.iter().map(move |name| format!("{service}/{name}")));
        assert_eq!(known.collect::<BTreeSet<_>>(), defined);
    }
}
