//! Features of the engine's runtimes.

use orlop_cri_api::v1::{RuntimeHandler, RuntimeHandlerFeatures};
use serde::Deserialize;

use crate::docker::ApiVersion;
use crate::docker::types::Info;

/// The key under which the engine reports a runtime's features.
const FEATURES: &str = "org.opencontainers.runtime-spec.features";

/// Lists the runtime handlers: the default under the empty name, and every runtime of the engine.
pub(crate) fn handlers(info: &Info, api: ApiVersion) -> Vec<RuntimeHandler> {
    let entry = |name: &str, runtime: &str| RuntimeHandler {
        name: name.to_owned(),
        features: Some(RuntimeHandlerFeatures {
            recursive_read_only_mounts: recursive_read_only(info, runtime, api),
            user_namespaces: false,
        }),
    };
    [entry("", ""), entry("docker", "")]
        .into_iter()
        .chain(info.runtimes.keys().map(|name| entry(name, name)))
        .collect()
}

/// Whether a runtime (empty: the default one) supports recursive read-only mounts.
pub(crate) fn recursive_read_only(info: &Info, runtime: &str, api: ApiVersion) -> bool {
    #[derive(Deserialize)]
    struct Features {
        #[serde(default, rename = "mountOptions")]
        mount_options: Vec<String>,
    }
    let runtime = if runtime.is_empty() {
        &info.default_runtime
    } else {
        runtime
    };
    let features = info
        .runtimes
        .get(runtime)
        .and_then(|runtime| runtime.status.get(FEATURES))
        .and_then(|text| serde_json::from_slice::<Features>(text.as_bytes()).ok());
    api >= ApiVersion::RECURSIVE_READ_ONLY
        && features.is_some_and(|features| features.mount_options.iter().any(|one| one == "rro"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docker::types::RuntimeInfo;

    #[test]
    fn a_runtime_is_believed_what_it_says_of_itself() {
        let mut info = Info {
            default_runtime: "runc".into(),
            ..Info::default()
        };
        let text = r#"{"mountOptions":["ro","rro"]}"#.to_owned();
        let runc = RuntimeInfo {
            status: [(FEATURES.to_owned(), text)].into(),
        };
        info.runtimes.insert("runc".into(), runc);
        info.runtimes.insert("old".into(), RuntimeInfo::default());
        assert!(recursive_read_only(&info, "", ApiVersion::NEWEST));
        assert!(!recursive_read_only(&info, "old", ApiVersion::NEWEST));
        assert!(!recursive_read_only(&info, "", ApiVersion::OLDEST));
        let names: Vec<_> = handlers(&info, ApiVersion::NEWEST)
            .into_iter()
            .map(|handler| handler.name)
            .collect();
        assert_eq!(names, ["", "docker", "old", "runc"]);
    }
}
