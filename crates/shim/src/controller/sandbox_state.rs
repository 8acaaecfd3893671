//! What those that make sandboxes tell of them, in messages that both services share.

use orlop_ttrpc::{all, any, field, text};

use crate::figures::Figures;

/// What containerd calls one that is down.
const DOWN: &str = "SANDBOX_NOTREADY";

/// How a sandbox is said to be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SandboxState {
    /// In the words of who made it.
    pub(crate) state: String,
    pub(crate) info: Vec<(String, String)>,
}

impl SandboxState {
    /// `SandboxStatusResponse`, or `ControllerStatusResponse`.
    pub(super) fn of(answer: &[u8]) -> Self {
        Self {
            state: text(answer, 3),
            info: all(answer, 4)
                .map(|entry| (text(entry.as_bytes(), 1), text(entry.as_bytes(), 2)))
                .collect(),
        }
    }

    /// One that is not known any more.
    pub(crate) fn gone() -> Self {
        Self {
            state: DOWN.to_owned(),
            info: Vec::new(),
        }
    }

    /// Whether it is said to be down; other words than containerd's say nothing.
    pub(crate) fn is_down(&self) -> bool {
        self.state == DOWN
    }
}

/// `os/architecture` of a `PlatformResponse`, if it says that.
pub(super) fn platform(answer: &[u8]) -> Option<String> {
    let platform = field(answer, 1)?;
    let (os, architecture) = (text(platform.as_bytes(), 1), text(platform.as_bytes(), 2));
    let told = !os.is_empty() && !architecture.is_empty();
    told.then(|| format!("{os}/{architecture}"))
}

/// The platform of this machine, as images name it.
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

/// The figures in an answer whose first field is a `containerd.types.Metric`.
pub(super) fn metrics(answer: &[u8]) -> Option<Figures> {
    let metric = field(answer, 1)?;
    let data = any(metric.as_bytes(), 3)?;
    Figures::of_metrics(&data.kind, data.value)
}

#[cfg(test)]
mod tests {
    use orlop_ttrpc::Writer;

    use super::{SandboxState, metrics, platform};

    /// A state of a sandbox, and a platform.
    fn answers() -> (Vec<u8>, Vec<u8>) {
        let entry = Writer::default().text(1, "vmm").text(2, "kit").done();
        let told = Writer::default()
            .text(1, "p1")
            .text(3, "SANDBOX_NOTREADY")
            .message(4, &entry);
        let linux = Writer::default().text(1, "linux").text(2, "arm64").done();
        let linux = Writer::default().message(1, &linux).done();
        (told.done(), linux)
    }

    #[test]
    fn states_and_platforms_are_read() {
        let (told, linux) = answers();
        let state = SandboxState::of(&told);
        assert!(state.is_down());
        assert_eq!(state.info, [("vmm".to_owned(), "kit".to_owned())]);
        for other in ["", "SANDBOX_READY", "running"] {
            let told = Writer::default().text(3, other).done();
            assert!(!SandboxState::of(&told).is_down(), "{other}");
        }
        assert_eq!(platform(&linux).as_deref(), Some("linux/arm64"));
        assert_eq!(platform(&told), None);
    }

    #[test]
    fn fuzzed_answers_of_a_controller_do_not_break_the_reader() {
        let (told, linux) = answers();
        orlop_testkit::Fuzz::new()
            .example(&told)
            .example(&linux)
            .run(|input| {
                drop((SandboxState::of(input), platform(input), metrics(input)));
            });
    }
}
