//! Flags of all client commands.

use std::path::PathBuf;

use clap::Args;

use crate::input::Span;

/// Flags of all client commands; they stand before the command.
#[derive(Debug, Clone, Default, Args)]
pub struct ClientFlags {
    /// Client configuration file, in the format of crictl [default: /etc/crictl.yaml, if it exists]
    #[arg(short, long, value_name = "FILE", env = "CRI_CONFIG_FILE")]
    pub config: Option<PathBuf>,

    /// CRI endpoint, as unix:///path [default: the first existing socket of a known runtime]
    #[arg(
        short,
        long,
        value_name = "ENDPOINT",
        env = "CONTAINER_RUNTIME_ENDPOINT"
    )]
    pub runtime_endpoint: Option<String>,

    /// Endpoint of the image service [default: the runtime endpoint]
    #[arg(short, long, value_name = "ENDPOINT", env = "IMAGE_SERVICE_ENDPOINT")]
    pub image_endpoint: Option<String>,

    /// Timeout of a call to the runtime [default: 2s; 2m for calls that change something]
    #[arg(short, long, value_name = "TIME")]
    pub timeout: Option<Span>,

    /// Print the calls to the runtime
    #[arg(short = 'D', long)]
    pub debug: bool,

    /// Number of retries to connect to a given endpoint (negative: no limit) [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_retries: Option<i32>,
}
