//! The state of a sandbox, in messages that both services share.

use std::collections::BTreeMap;

use orlop_containerd_api::types::{Metric, Platform};

use crate::figures::Figures;

/// containerd's name for a stopped sandbox.
const DOWN: &str = "SANDBOX_NOTREADY";

/// The reported state of a sandbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SandboxState {
    /// The state, as the sandbox controller names it.
    pub(crate) state: String,
    pub(crate) info: BTreeMap<String, String>,
}

impl SandboxState {
    /// Returns the state of a sandbox that no longer exists.
    pub(crate) fn gone() -> Self {
        Self {
            state: DOWN.to_owned(),
            info: BTreeMap::new(),
        }
    }

    /// Whether the sandbox is reported as stopped; words other than containerd's count as running.
    pub(crate) fn is_down(&self) -> bool {
        self.state == DOWN
    }
}

/// Formats `os/architecture`, if both are reported.
pub(super) fn platform(platform: Option<Platform>) -> Option<String> {
    let Platform { os, architecture } = platform?;
    let told = !os.is_empty() && !architecture.is_empty();
    told.then(|| format!("{os}/{architecture}"))
}

/// Returns the platform of this machine in the format of images.
pub(crate) fn our_platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    };
    format!("linux/{architecture}")
}

/// Extracts the statistics of a sandbox.
pub(super) fn metrics(metric: Option<Metric>) -> Option<Figures> {
    Figures::of_metrics(&metric?.data?)
}

#[cfg(test)]
mod tests {
    use orlop_containerd_api::Message;
    use orlop_containerd_api::sandbox::{
        PlatformResponse, SandboxMetricsResponse, SandboxStatusResponse,
    };
    use orlop_containerd_api::types::Platform;
    use orlop_testkit::sandbox_facts;

    use super::{SandboxState, metrics, platform};

    #[test]
    fn states_and_platforms_are_read() {
        for (word, is_down) in [
            ("SANDBOX_NOTREADY", true),
            ("", false),
            ("SANDBOX_READY", false),
            ("running", false),
        ] {
            let state = SandboxState {
                state: word.into(),
                ..SandboxState::default()
            };
            assert_eq!(state.is_down(), is_down, "{word}");
        }
        let linux = |architecture: &str| {
            platform(Some(Platform {
                os: "linux".into(),
                architecture: architecture.into(),
            }))
        };
        assert_eq!(linux("arm64").as_deref(), Some("linux/arm64"));
        assert_eq!(linux(""), None);
        assert_eq!(platform(None), None);
    }

    #[test]
    fn fuzzed_answers_of_a_controller_do_not_break_the_reader() {
        orlop_testkit::Fuzz::new()
            .example(sandbox_facts::status(true, "kit"))
            .example(sandbox_facts::platform("arm64"))
            .example(sandbox_facts::metrics())
            .run(|input| {
                let _ = SandboxStatusResponse::decode(input);
                let _ = PlatformResponse::decode(input).map(|told| platform(told.platform));
                let _ = SandboxMetricsResponse::decode(input).map(|told| metrics(told.metrics));
            });
    }
}
