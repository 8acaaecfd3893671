//! The daemon as a part of another command.

use std::path::PathBuf;

use super::args::ServeArgs;
use super::directories::Directories;
use super::serving::{Beginning, Serving};
use crate::config::{Config, Flags, Location, load};
use crate::log::Levels;

/// Settings of an embedded daemon.
#[derive(Debug)]
pub(crate) struct Plan {
    location: Location,
    flags: Flags,
    config: Config,
}

impl Plan {
    /// Loads the configuration.
    pub(crate) fn read(args: ServeArgs) -> anyhow::Result<Self> {
        let (location, flags) = args.split();
        let config = load(&location, &flags)?.config;
        Ok(Self {
            location,
            flags,
            config,
        })
    }

    /// Returns the configuration.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }
}

/// A daemon that runs inside another command.
pub(crate) struct Embedded {
    serving: Serving,
    socket: PathBuf,
    _directories: Directories,
}

impl Embedded {
    /// Locks the directories, opens the sockets, starts the runtime and serves.
    pub(crate) async fn start(plan: Plan, levels: Levels) -> anyhow::Result<Self> {
        let Plan {
            location,
            flags,
            config,
        } = plan;
        let directories = Directories::take(&config)?;
        let socket = config
            .grpc
            .listen
            .first()
            .map(|socket| socket.to_path_buf())
            .unwrap_or_default();
        let beginning = Beginning {
            location,
            flags,
            config,
            levels,
            sockets: Vec::new(),
        };
        Ok(Self {
            serving: Box::pin(Serving::start(beginning)).await?,
            socket,
            _directories: directories,
        })
    }

    /// Returns the path of the CRI socket.
    pub(crate) fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// Returns only if the server fails, with the reason.
    pub(crate) async fn failure(&mut self) -> anyhow::Error {
        self.serving.failure().await
    }

    /// Finishes the running calls and releases all resources; pods continue to run.
    pub(crate) async fn finish(self) -> anyhow::Result<()> {
        self.serving.finish(std::future::pending()).await
    }
}
