//! Flags of all client commands.

use std::path::PathBuf;

use clap::Args;

use crate::input::Span;

/// Flags of all client commands; they stand before the command.
#[derive(Debug, Clone, Default, Args)]
pub struct ClientFlags {
    /// The client configuration, in crictl's format [default: /etc/crictl.yaml, where it exists]
    #[arg(short, long, value_name = "FILE", env = "CRI_CONFIG_FILE")]
    pub config: Option<PathBuf>,

    /// The CRI endpoint, as unix:///path [default: the first socket of a known runtime]
    #[arg(
        short,
        long,
        value_name = "ENDPOINT",
        env = "CONTAINER_RUNTIME_ENDPOINT"
    )]
    pub runtime_endpoint: Option<String>,

    /// The endpoint of the image service [default: that of the runtime]
    #[arg(short, long, value_name = "ENDPOINT", env = "IMAGE_SERVICE_ENDPOINT")]
    pub image_endpoint: Option<String>,

    /// How long to wait for an answer [default: 2s; 2m for calls that change something]
    #[arg(short, long, value_name = "TIME")]
    pub timeout: Option<Span>,

    /// Show the calls that are made
    #[arg(short = 'D', long)]
    pub debug: bool,

    /// How often to try again to connect to a given endpoint (negative: for ever) [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_retries: Option<i32>,
}
