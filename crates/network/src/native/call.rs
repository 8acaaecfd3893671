//! Arguments of a call to a built-in plugin.

use std::fs::File;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cni::{CniResult, SpecVersion, Verb};
use crate::error::NativeError;

/// The arguments of a plugin: the same as for its program.
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

impl Call<'_> {
    /// Returns the owner of a rule or an element. A pod may be on a network twice.
    pub(crate) fn owner(&self) -> String {
        format!("{} {}", self.container_id, self.if_name)
    }

    /// Parses the plugin's configuration.
    pub(crate) fn conf<T: DeserializeOwned>(&self) -> Result<T, NativeError> {
        T::deserialize(self.conf).map_err(|error| NativeError::Config(error.to_string()))
    }

    /// Returns the result of the previous plugin.
    pub(crate) fn previous(&self) -> Result<Option<CniResult>, NativeError> {
        self.conf
            .get("prevResult")
            .map(|value| CniResult::parse(value, self.version))
            .transpose()
            .map_err(|error| {
                NativeError::Config(format!("prevResult: {}", orlop_text::with_causes(&error)))
            })
    }

    /// Returns the result of the previous plugin, which a chained plugin requires.
    pub(crate) fn required_previous(&self) -> Result<CniResult, NativeError> {
        self.previous()?
            .ok_or_else(|| NativeError::Config("must be called as chained plugin".to_owned()))
    }

    /// Opens the pod's namespace, which ADD and CHECK require.
    pub(crate) fn open_netns(&self) -> Result<File, NativeError> {
        let path = self
            .netns
            .ok_or_else(|| NativeError::Config("no network namespace".to_owned()))?;
        File::open(path).map_err(NativeError::system(format!(
            "open the network namespace {}",
            path.display()
        )))
    }

    /// Opens the pod's namespace, if it still exists.
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

    /// Returns the value of a key in `CNI_ARGS`, ignoring case.
    pub(crate) fn arg(&self, key: &str) -> Option<&str> {
        self.args
            .split(';')
            .filter_map(|pair| pair.split_once('='))
            .find(|(name, value)| name.eq_ignore_ascii_case(key) && !value.is_empty())
            .map(|(_, value)| value)
    }
}
