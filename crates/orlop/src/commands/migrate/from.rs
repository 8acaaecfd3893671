//! The runtimes that a node can be migrated from.

use std::path::Path;

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum From {
    Containerd,
    Crio,
    Docker,
}

impl From {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Crio => "crio",
            Self::Docker => "docker",
        }
    }

    pub(super) fn usual_config(self) -> &'static Path {
        Path::new(match self {
            Self::Containerd => "/etc/containerd/config.toml",
            Self::Crio => "/etc/crio/crio.conf",
            Self::Docker => "/etc/docker/daemon.json",
        })
    }
}
