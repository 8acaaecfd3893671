//! `linux.seccomp`: the system call filter, also the format of profile files on a node.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A filter as JSON text. It contains hundreds of names, so only a reader that has not seen the text before parses it
/// to a [`Seccomp`].
#[derive(Debug, Clone)]
pub struct Profile(Arc<RawValue>);

impl Profile {
    /// Serializes a filter.
    pub fn new(profile: &Seccomp) -> serde_json::Result<Self> {
        Ok(Self(serde_json::value::to_raw_value(profile)?.into()))
    }

    /// Returns the JSON text, which may not be a valid filter.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Parses the text.
    pub fn understood(&self) -> serde_json::Result<Seccomp> {
        serde_json::from_str(self.text())
    }
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Serialize for Profile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        Ok(Self(text.into()))
    }
}

/// A system call filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seccomp {
    /// The action for calls without a rule.
    pub default_action: SeccompAction,
    /// The error number for a default action that returns an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_errno_ret: Option<u32>,
    /// Architectures to filter, such as `SCMP_ARCH_X86_64`; the native one if empty.
    #[serde(
        default,
        deserialize_with = "null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub architectures: Vec<String>,
    /// Flags of `seccomp(2)`, such as `SECCOMP_FILTER_FLAG_LOG`. If absent, runtimes choose some; an empty list means
    /// no flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
    /// Socket of the agent that handles notifications.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub listener_path: String,
    /// Metadata for that agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub listener_metadata: String,
    /// The rules.
    #[serde(
        default,
        deserialize_with = "null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub syscalls: Vec<SeccompRule>,
}

/// The action for a set of system calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompRule {
    /// Names of the calls; unknown names are ignored.
    pub names: Vec<String>,
    /// The action.
    pub action: SeccompAction,
    /// The error number for an action that returns an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno_ret: Option<u32>,
    /// Conditions that must all hold.
    #[serde(
        default,
        deserialize_with = "null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub args: Vec<SeccompArg>,
}

/// A condition on one argument of a system call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompArg {
    /// Index of the argument, from 0.
    pub index: u32,
    /// The value to compare with; the mask of a masked comparison.
    pub value: u64,
    /// The value that a masked argument is compared with.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub value_two: u64,
    /// The comparison.
    pub op: SeccompOperator,
}

/// The action of the kernel for a filtered call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SeccompAction {
    /// Kills the thread (older name).
    #[serde(rename = "SCMP_ACT_KILL")]
    Kill,
    /// Kills the process.
    #[serde(rename = "SCMP_ACT_KILL_PROCESS")]
    KillProcess,
    /// Kills the thread.
    #[serde(rename = "SCMP_ACT_KILL_THREAD")]
    KillThread,
    /// Sends SIGSYS.
    #[serde(rename = "SCMP_ACT_TRAP")]
    Trap,
    /// Fails the call.
    #[serde(rename = "SCMP_ACT_ERRNO")]
    Errno,
    /// Notifies a tracer.
    #[serde(rename = "SCMP_ACT_TRACE")]
    Trace,
    /// Allows the call.
    #[serde(rename = "SCMP_ACT_ALLOW")]
    Allow,
    /// Allows the call and logs it.
    #[serde(rename = "SCMP_ACT_LOG")]
    Log,
    /// Notifies an agent over a socket.
    #[serde(rename = "SCMP_ACT_NOTIFY")]
    Notify,
}

/// The comparison of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SeccompOperator {
    /// Not equal.
    #[serde(rename = "SCMP_CMP_NE")]
    NotEqual,
    /// Less than.
    #[serde(rename = "SCMP_CMP_LT")]
    Less,
    /// Less than or equal.
    #[serde(rename = "SCMP_CMP_LE")]
    LessOrEqual,
    /// Equal.
    #[serde(rename = "SCMP_CMP_EQ")]
    Equal,
    /// Greater than or equal.
    #[serde(rename = "SCMP_CMP_GE")]
    GreaterOrEqual,
    /// Greater than.
    #[serde(rename = "SCMP_CMP_GT")]
    Greater,
    /// Equal under a mask.
    #[serde(rename = "SCMP_CMP_MASKED_EQ")]
    MaskedEqual,
}

/// Reads `null` as an empty list, because Go programs write it so.
fn null_as_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_with_null_lists_is_read() {
        let profile: Seccomp = serde_json::from_str(
            r#"{"defaultAction": "SCMP_ACT_LOG", "architectures": null,
                "syscalls": [{"names": ["kill"], "action": "SCMP_ACT_ERRNO", "args": null}]}"#,
        )
        .unwrap();
        assert_eq!(profile.syscalls[0].action, SeccompAction::Errno);
        assert!(profile.syscalls[0].args.is_empty());
    }

    #[test]
    fn an_unknown_action_is_refused_by_name() {
        let error = serde_json::from_str::<Seccomp>(r#"{"defaultAction": "SCMP_ACT_SHRUG"}"#)
            .unwrap_err()
            .to_string();
        assert!(error.contains("SCMP_ACT_SHRUG"), "{error}");
    }
}
