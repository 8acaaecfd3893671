//! `linux.seccomp`: the system call filter, also the format of profile files on a node.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A filter as a document has it: hundreds of names, of which only who has not met that text before makes
/// a [`Seccomp`].
#[derive(Debug, Clone)]
pub struct Profile(Arc<RawValue>);

impl Profile {
    /// The document of a filter.
    pub fn new(profile: &Seccomp) -> serde_json::Result<Self> {
        Ok(Self(serde_json::value::to_raw_value(profile)?.into()))
    }

    /// Its JSON, which need be no filter.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// What it says.
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
    /// What happens to calls no rule speaks of.
    pub default_action: SeccompAction,
    /// The error given when the default action is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_errno_ret: Option<u32>,
    /// Architectures filtered, as `SCMP_ARCH_X86_64`; the native one if empty.
    #[serde(
        default,
        deserialize_with = "null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub architectures: Vec<String>,
    /// Flags of `seccomp(2)`, as `SECCOMP_FILTER_FLAG_LOG`. Runtimes choose some where nothing is said
    /// of them; none are asked for by an empty list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
    /// Socket of the agent that answers notified calls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub listener_path: String,
    /// What is told to that agent.
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

/// What happens to a set of system calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeccompRule {
    /// Names of the calls; those the kernel does not know are passed over.
    pub names: Vec<String>,
    /// What happens.
    pub action: SeccompAction,
    /// The error given when the action is an error.
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
    /// Which argument, from 0.
    pub index: u32,
    /// What it is compared with; the mask of a masked comparison.
    pub value: u64,
    /// What a masked argument is compared with.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub value_two: u64,
    /// How it is compared.
    pub op: SeccompOperator,
}

/// What the kernel does with a filtered call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SeccompAction {
    /// Ends the thread (older name).
    #[serde(rename = "SCMP_ACT_KILL")]
    Kill,
    /// Ends the process.
    #[serde(rename = "SCMP_ACT_KILL_PROCESS")]
    KillProcess,
    /// Ends the thread.
    #[serde(rename = "SCMP_ACT_KILL_THREAD")]
    KillThread,
    /// Sends SIGSYS.
    #[serde(rename = "SCMP_ACT_TRAP")]
    Trap,
    /// Fails the call.
    #[serde(rename = "SCMP_ACT_ERRNO")]
    Errno,
    /// Asks a tracer.
    #[serde(rename = "SCMP_ACT_TRACE")]
    Trace,
    /// Lets it happen.
    #[serde(rename = "SCMP_ACT_ALLOW")]
    Allow,
    /// Lets it happen and logs it.
    #[serde(rename = "SCMP_ACT_LOG")]
    Log,
    /// Asks an agent over a socket.
    #[serde(rename = "SCMP_ACT_NOTIFY")]
    Notify,
}

/// How an argument is compared.
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

/// Profiles written by Go programs say `null` for an empty list.
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
