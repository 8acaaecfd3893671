//! Builder of an engine.

use super::engine::DockerEngine;

/// Settings of an engine.
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
    /// Enables live restore.
    pub fn live_restore(mut self) -> Self {
        self.live_restore = true;
        self
    }

    /// Creates a bridge for containers, with ports of the host through the proxy.
    pub fn bridge(mut self) -> Self {
        self.bridge = true;
        self
    }

    /// Gives the bridge IPv4 and IPv6 addresses.
    pub fn ipv6(mut self) -> Self {
        self.ipv6 = true;
        self.bridge()
    }

    /// Puts the data on a separate disk with this many bytes.
    pub fn disk(mut self, bytes: u64) -> Self {
        self.disk = Some(bytes);
        self
    }

    /// Adds a runtime by name and program.
    pub fn runtime(mut self, name: &str, program: &str) -> Self {
        self.runtimes.push((name.to_owned(), program.to_owned()));
        self
    }

    /// Sets the default runtime.
    pub fn default_runtime(mut self, name: &str) -> Self {
        self.default_runtime = Some(name.to_owned());
        self
    }

    /// Starts the engine.
    pub fn start(self) -> DockerEngine {
        DockerEngine::launch(self)
    }
}
