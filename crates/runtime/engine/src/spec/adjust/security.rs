//! NRI adjustments of the seccomp filter, namespaces and sysctls.

use orlop_nri::v1alpha1::{LinuxContainerAdjustment, LinuxSeccomp, LinuxSyscall};
use orlop_oci_types::{
    Linux, Namespace, NamespaceKind, Profile, Seccomp, SeccompArg, SeccompRule, Spec,
};
use serde::de::DeserializeOwned;

use super::{AdjustFacts, field};
use crate::spec::Error;
use crate::spec::sysctl_names::{Scope, dotted, scope};

pub(super) fn adjust(
    wanted: &LinuxContainerAdjustment,
    facts: &AdjustFacts<'_>,
    spec: &mut Spec,
) -> Result<(), Error> {
    let linux = spec.linux.get_or_insert_default();
    if let Some(policy) = &wanted.seccomp_policy {
        let known = facts.features.linux.as_ref();
        let known = known.and_then(|linux| linux.seccomp.as_ref());
        if known.and_then(|seccomp| seccomp.enabled) == Some(false) {
            let problem = "the runtime handler does not support seccomp";
            return Err(Error::unmet(field("linux.seccomp_policy"), problem));
        }
        let document = Profile::new(&seccomp(policy)?)
            .map_err(|error| Error::invalid(field("linux.seccomp_policy"), error.to_string()))?;
        linux.seccomp = Some(document);
    }
    for namespace in &wanted.namespaces {
        let gone = orlop_nri::removed(&namespace.r#type);
        let name = "linux.namespaces.type";
        let kind: NamespaceKind = parse(gone.unwrap_or(&namespace.r#type), name)?;
        linux.namespaces.retain(|own| own.kind != kind);
        if gone.is_none() {
            linux.namespaces.push(Namespace {
                kind,
                path: namespace.path.clone(),
            });
        }
    }
    for name in wanted.sysctl.keys() {
        if let Some(name) = orlop_nri::removed(name) {
            linux.sysctl.remove(name);
        }
    }
    for (name, value) in &wanted.sysctl {
        if orlop_nri::removed(name).is_none() {
            let name = checked_sysctl(name, value, linux)?;
            linux.sysctl.insert(name, value.clone());
        }
    }
    Ok(())
}

/// Validates a sysctl, which must belong to a namespace that the container does not share with the node.
fn checked_sysctl(name: &str, value: &str, linux: &Linux) -> Result<String, Error> {
    let field = field("linux.sysctl");
    let name = dotted(name)?;
    if value.contains(['\0', '\n']) {
        let problem = format!("the value of {name} contains a line break or a NUL character");
        return Err(Error::invalid(field, problem));
    }
    let kind = match scope(&name) {
        Some(Scope::Network) => NamespaceKind::Network,
        Some(Scope::Ipc) => NamespaceKind::Ipc,
        Some(Scope::HostName) => NamespaceKind::Uts,
        None => {
            let problem = format!("{name} is not a namespaced kernel parameter");
            return Err(Error::invalid(field, problem));
        }
    };
    if linux.namespaces.iter().any(|own| own.kind == kind) {
        return Ok(name);
    }
    let problem =
        format!("{name} would change the node, because the container shares the node's namespace");
    Err(Error::invalid(field, problem))
}

fn seccomp(wanted: &LinuxSeccomp) -> Result<Seccomp, Error> {
    Ok(Seccomp {
        default_action: parse(
            &wanted.default_action,
            "linux.seccomp_policy.default_action",
        )?,
        default_errno_ret: wanted.default_errno.map(|number| number.value),
        architectures: wanted.architectures.clone(),
        flags: Some(wanted.flags.clone()).filter(|flags| !flags.is_empty()),
        listener_path: wanted.listener_path.clone(),
        listener_metadata: wanted.listener_metadata.clone(),
        syscalls: wanted.syscalls.iter().map(rule).collect::<Result<_, _>>()?,
    })
}

fn rule(wanted: &LinuxSyscall) -> Result<SeccompRule, Error> {
    let mut args = Vec::new();
    for arg in &wanted.args {
        args.push(SeccompArg {
            index: arg.index,
            value: arg.value,
            value_two: arg.value_two,
            op: parse(&arg.op, "linux.seccomp_policy.syscalls.args.op")?,
        });
    }
    Ok(SeccompRule {
        names: wanted.names.clone(),
        action: parse(&wanted.action, "linux.seccomp_policy.syscalls.action")?,
        errno_ret: wanted.errno_ret.map(|number| number.value),
        args,
    })
}

/// Parses an enumeration value by its name in the OCI specification.
fn parse<T: DeserializeOwned>(word: &str, name: &str) -> Result<T, Error> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).map_err(|_| {
        let problem = format!("{word:?} is not a value of the OCI runtime specification");
        Error::invalid(field(name), problem)
    })
}
