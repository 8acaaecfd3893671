//! The types of configuration keys.

mod affinity;
mod choice;
mod cipher;
mod collection;
mod credentials;
mod duration;
mod endpoint;
mod group;
mod level;
mod limit;
mod number;
mod otlp;
mod path;
mod platform;
mod scalar;
mod size;
mod subnet;
mod text;
mod ulimit;
mod value;

pub(crate) use choice::{
    Backend, Hairpin, Laziness, LogFormat, NetworkPlugin, RuntimeKind, Sandboxer, StreamsBy,
};
pub(crate) use credentials::CredentialsAt;
pub(crate) use duration::Interval;
pub(crate) use endpoint::{MetricsEndpoint, SocketPath};
pub(crate) use group::Group;
pub(crate) use level::LevelFilter;
pub(crate) use limit::Limit;
pub(crate) use otlp::{OtlpEndpoint, Share, TraceProtocol};
pub(crate) use path::AbsolutePath;
pub(crate) use size::ByteSize;
#[cfg(feature = "docker")]
pub(crate) use ulimit::resource;
pub(crate) use value::Value;
