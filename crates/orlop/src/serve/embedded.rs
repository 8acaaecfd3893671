//! The daemon as a part of another command.

use std::path::PathBuf;

use super::args::ServeArgs;
use super::directories::Directories;
use super::serving::{Beginning, Serving};
use crate::config::{Config, Flags, Location, load};
use crate::log::Levels;

/// What a daemon within another command is started with.
#[derive(Debug)]
pub(crate) struct Plan {
    location: Location,
    flags: Flags,
    config: Config,
}

impl Plan {
    /// Reads the configuration.
    pub(crate) fn read(args: ServeArgs) -> anyhow::Result<Self> {
        let (location, flags) = args.split();
        let config = load(&location, &flags)?.config;
        Ok(Self {
            location,
            flags,
            config,
        })
    }

    /// The configuration.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }
}

/// A daemon within another command.
pub(crate) struct Embedded {
    serving: Serving,
    socket: PathBuf,
    _directories: Directories,
}

impl Embedded {
    /// Takes the directories, opens the sockets, starts the runtime, serves.
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

    /// Where it serves the CRI.
    pub(crate) fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// Ends only if the server fails, and says why.
    pub(crate) async fn failure(&mut self) -> anyhow::Error {
        self.serving.failure().await
    }

    /// Finishes the calls in work and lets go; pods go on.
    pub(crate) async fn finish(self) -> anyhow::Result<()> {
        self.serving.finish(std::future::pending()).await
    }
}
