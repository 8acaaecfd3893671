//! Which plugins are done in process, and how they are called.

use std::fs::File;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{NativeError, bandwidth, bridge, firewall, loopback, masquerade, portmap, ptp, tuning};
use crate::cni::{CniResult, SpecVersion, Verb};

/// A standard plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NativePlugin {
    Bandwidth,
    Bridge,
    Firewall,
    Loopback,
    Portmap,
    Ptp,
    Tuning,
}

/// What a plugin is told: the same as its program would be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) verb: Verb,
    pub(crate) container_id: &'a str,
    pub(crate) if_name: &'a str,
    pub(crate) netns: Option<&'a Path>,
    pub(crate) args: &'a str,
    pub(crate) version: SpecVersion,
    pub(crate) network: &'a str,
    pub(crate) conf: &'a Value,
}

impl NativePlugin {
    pub(crate) fn named(kind: &str) -> Option<Self> {
        match kind {
            "bandwidth" => Some(Self::Bandwidth),
            "bridge" => Some(Self::Bridge),
            "firewall" => Some(Self::Firewall),
            "loopback" => Some(Self::Loopback),
            "portmap" => Some(Self::Portmap),
            "ptp" => Some(Self::Ptp),
            "tuning" => Some(Self::Tuning),
            _ => None,
        }
    }

    /// Runs the plugin; ADD gives a result, the other verbs none.
    pub(crate) fn run(self, call: &Call<'_>) -> Result<Option<CniResult>, NativeError> {
        match self {
            Self::Bandwidth => bandwidth::run(call),
            Self::Bridge => bridge::run(call),
            Self::Firewall => firewall::run(call),
            Self::Loopback => loopback::run(call),
            Self::Portmap => portmap::run(call),
            Self::Ptp => ptp::run(call),
            Self::Tuning => tuning::run(call),
        }
    }
}

/// Whether a pod was attached in process in a way that the plugin's program knows nothing of, so that
/// it is detached in process, too, however the network is run now.
pub(crate) fn did_what_programs_cannot_undo(kind: &str, call: &Call<'_>) -> bool {
    let masquerades = call.conf.get("ipMasq") == Some(&Value::Bool(true));
    match NativePlugin::named(kind) {
        Some(NativePlugin::Bridge | NativePlugin::Ptp) if masquerades => {
            masquerade::is_by_sets(call)
        }
        Some(NativePlugin::Firewall) => firewall::is_noted(call),
        Some(NativePlugin::Portmap) => portmap::is_by_maps(call),
        _ => false,
    }
}

impl Call<'_> {
    /// Whose a rule or an element is. A pod may be on a network twice.
    pub(crate) fn owner(&self) -> String {
        format!("{} {}", self.container_id, self.if_name)
    }

    /// The plugin's configuration in its own terms.
    pub(crate) fn conf<T: DeserializeOwned>(&self) -> Result<T, NativeError> {
        T::deserialize(self.conf).map_err(|error| NativeError::Config(error.to_string()))
    }

    /// The result of the plugin before this one.
    pub(crate) fn previous(&self) -> Result<Option<CniResult>, NativeError> {
        self.conf
            .get("prevResult")
            .map(|value| CniResult::parse(value, self.version))
            .transpose()
            .map_err(|error| {
                NativeError::Config(format!("prevResult: {}", orlop_text::with_causes(&error)))
            })
    }

    /// The result of the plugin before this one, without which a chained
    /// plugin has nothing to work on.
    pub(crate) fn required_previous(&self) -> Result<CniResult, NativeError> {
        self.previous()?
            .ok_or_else(|| NativeError::Config("must be called as chained plugin".to_owned()))
    }

    /// The pod's namespace, which ADD and CHECK need.
    pub(crate) fn open_netns(&self) -> Result<File, NativeError> {
        let path = self
            .netns
            .ok_or_else(|| NativeError::Config("no network namespace".to_owned()))?;
        File::open(path).map_err(NativeError::system(format!(
            "open the network namespace {}",
            path.display()
        )))
    }

    /// The pod's namespace, if it still is there.
    pub(crate) fn netns_if_there(&self) -> Result<Option<File>, NativeError> {
        let Some(path) = self.netns else {
            return Ok(None);
        };
        match File::open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(NativeError::system(format!(
                "open the network namespace {}",
                path.display()
            ))(error)),
        }
    }

    /// The value of a key in `CNI_ARGS`, whatever its case.
    pub(crate) fn arg(&self, key: &str) -> Option<&str> {
        self.args
            .split(';')
            .filter_map(|pair| pair.split_once('='))
            .find(|(name, value)| name.eq_ignore_ascii_case(key) && !value.is_empty())
            .map(|(_, value)| value)
    }
}
