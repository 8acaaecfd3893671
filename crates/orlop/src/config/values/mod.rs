//! The types that a configuration key can have.

mod affinity;
mod choice;
mod collection;
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

pub(crate) use affinity::Affinity;
pub(crate) use choice::{
    Backend, CgroupDriver, HairpinMode, InProcess, IpPreference, LogFormat, LogFull, NetworkPlugin,
    RuntimeKind,
};
pub(crate) use duration::Interval;
pub(crate) use endpoint::{MetricsEndpoint, SocketPath};
pub(crate) use group::Group;
pub(crate) use level::LevelFilter;
pub(crate) use limit::Limit;
pub(crate) use otlp::OtlpEndpoint;
pub(crate) use path::AbsolutePath;
pub(crate) use platform::Platform;
pub(crate) use size::ByteSize;
pub(crate) use subnet::Subnet;
pub(crate) use ulimit::Ulimit;

use toml::Spanned;
use toml::de::DeValue;

use crate::config::section::BadValue;

/// A type that a configuration key can have.
pub(crate) trait Value: Sized {
    /// What the documentation calls it: `duration`, `list of path`…
    fn kind() -> String;

    /// Takes the value from a file.
    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue>;

    /// Writes the value as it would stand in a file.
    fn to_toml(&self) -> String;
}

fn mismatch<T: Value>(value: &Spanned<DeValue<'_>>) -> BadValue {
    let found = match value.get_ref() {
        DeValue::Table(_) => "table",
        other => other.type_str(),
    };
    bad(value, format!("expected a {}, found a {found}", T::kind()))
}

fn bad(value: &Spanned<DeValue<'_>>, message: impl Into<String>) -> BadValue {
    BadValue {
        span: value.span(),
        message: message.into(),
    }
}
