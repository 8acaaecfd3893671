//! What a test may say about its engine before it starts.

use super::engine::DockerEngine;

/// An engine being described.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub(super) live_restore: bool,
    pub(super) bridge: bool,
    pub(super) ipv6: bool,
    pub(super) disk: Option<u64>,
    pub(super) runtimes: Vec<(String, String)>,
    pub(super) default_runtime: Option<String>,
}

impl Settings {
    /// Containers go on while the engine is away.
    pub fn live_restore(mut self) -> Self {
        self.live_restore = true;
        self
    }

    /// A bridge of its own for containers, and ports of the host by its proxy.
    pub fn bridge(mut self) -> Self {
        self.bridge = true;
        self
    }

    /// The bridge has addresses of both families.
    pub fn ipv6(mut self) -> Self {
        self.ipv6 = true;
        self.bridge()
    }

    /// Its data is on a disk of its own with so many bytes.
    pub fn disk(mut self, bytes: u64) -> Self {
        self.disk = Some(bytes);
        self
    }

    /// One more runtime, by the name of its program on the path.
    pub fn runtime(mut self, name: &str, program: &str) -> Self {
        self.runtimes.push((name.to_owned(), program.to_owned()));
        self
    }

    /// The runtime of containers that name none.
    pub fn default_runtime(mut self, name: &str) -> Self {
        self.default_runtime = Some(name.to_owned());
        self
    }

    /// Starts the engine.
    pub fn start(self) -> DockerEngine {
        DockerEngine::launch(self)
    }
}
