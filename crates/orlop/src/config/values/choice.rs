//! Values that are one of a few fixed strings.

use std::fmt;

use orlop_engine::config::{CgroupDriver, ImageStore, InProcess, IpPreference, LogPolicy};
use orlop_streaming::TlsVersion;
use toml::Spanned;
use toml::de::DeValue;

use super::otlp::TraceProtocol;
use super::value::{Value, bad};
use crate::config::section::BadValue;

/// Defines the strings of a type.
macro_rules! words {
    ($type:ty { $($word:literal => $value:expr,)* }) => {
        impl Value for $type {
            fn kind() -> String {
                format!("one of {}", [$($word),*].join(", "))
            }

            fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
                one_of(value, [$(($word, $value)),*])
            }

            fn to_toml(&self) -> String {
                let word = [$(($word, $value)),*].into_iter().find(|(_, value)| value == self);
                format!("\"{}\"", word.map_or("", |(word, _)| word))
            }
        }
    };
}

fn one_of<T: Value, const N: usize>(
    value: &Spanned<DeValue<'_>>,
    words: [(&str, T); N],
) -> Result<T, BadValue> {
    let Some(text) = value.get_ref().as_str() else {
        let found = value.get_ref().type_str();
        return Err(bad(
            value,
            format!("expected {}, found a {found}", T::kind()),
        ));
    };
    let kind = T::kind();
    let found = words.into_iter().find(|(word, _)| *word == text);
    found
        .map(|(_, value)| value)
        .ok_or_else(|| bad(value, format!("{text:?} is not {kind}")))
}

/// Backend that runs the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// orlop itself.
    Native,
    /// The Docker Engine.
    Docker,
}

words! {
    Backend {
        "native" => Self::Native,
        "docker" => Self::Docker,
    }
}

words! {
    TraceProtocol {
        "http" => Self::Http,
        "grpc" => Self::Grpc,
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_toml().trim_matches('"'))
    }
}

/// Whether image layers are mounted while they are downloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Laziness {
    /// If both the format of the layer and the kernel support it.
    Auto,
    Never,
}

words! {
    Laziness {
        "auto" => Self::Auto,
        "never" => Self::Never,
    }
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Auto,
    Text,
    Json,
    Journal,
}

words! {
    LogFormat {
        "auto" => Self::Auto,
        "text" => Self::Text,
        "json" => Self::Json,
        "journal" => Self::Journal,
    }
}

/// Component that creates the sandbox, the shared part of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sandboxer {
    Podsandbox,
    Shim,
    Proxy,
}

words! {
    Sandboxer {
        "podsandbox" => Self::Podsandbox,
        "shim" => Self::Shim,
        "proxy" => Self::Proxy,
    }
}

/// Transport of the standard streams of a shim's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamsBy {
    Fifo,
    Streaming,
}

words! {
    StreamsBy {
        "fifo" => Self::Fifo,
        "streaming" => Self::Streaming,
    }
}

words! {
    ImageStore {
        "files" => Self::Files,
        "erofs" => Self::Erofs,
    }
}

/// Kinds of container runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuntimeKind {
    Oci,
    Sandboxed,
    Shim,
}

words! {
    RuntimeKind {
        "oci" => Self::Oci,
        "sandboxed" => Self::Sandboxed,
        "shim" => Self::Shim,
    }
}

words! {
    LogPolicy {
        "wait" => Self::Block,
        "drop" => Self::Drop,
    }
}

words! {
    TlsVersion {
        "VersionTLS12" => TlsVersion::Tls12,
        "VersionTLS13" => TlsVersion::Tls13,
    }
}

words! {
    Option<CgroupDriver> {
        "auto" => None,
        "cgroupfs" => Some(CgroupDriver::Cgroupfs),
        "systemd" => Some(CgroupDriver::Systemd),
    }
}

words! {
    InProcess {
        "auto" => Self::Auto,
        "always" => Self::Always,
        "never" => Self::Never,
    }
}

words! {
    IpPreference {
        "cni" => Self::Cni,
        "ipv4" => Self::Ipv4,
        "ipv6" => Self::Ipv6,
    }
}

/// Who connects pods of the Docker backend to a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkPlugin {
    Cni,
    Bridge,
    None,
}

words! {
    NetworkPlugin {
        "cni" => Self::Cni,
        "bridge" => Self::Bridge,
        "none" => Self::None,
    }
}

/// How packets that a pod sends to its own service address come back to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hairpin {
    Promiscuous,
    Veth,
    None,
}

words! {
    Hairpin {
        "promiscuous-bridge" => Self::Promiscuous,
        "hairpin-veth" => Self::Veth,
        "none" => Self::None,
    }
}
