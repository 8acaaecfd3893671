//! Address plugins, which the interface plugins call.

use serde_json::Value;

use super::call::Call;
use super::{host_local, static_ipam};
use crate::cni::{CniResult, Verb};
use crate::error::NativeError;

/// A standard address plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IpamKind {
    HostLocal,
    Static,
}

impl IpamKind {
    pub(super) fn named(kind: &str) -> Option<Self> {
        match kind {
            "host-local" => Some(Self::HostLocal),
            "static" => Some(Self::Static),
            _ => None,
        }
    }

    fn of(call: &Call<'_>) -> Result<Self, NativeError> {
        let kind = call
            .conf
            .get("ipam")
            .and_then(|ipam| ipam.get("type"))
            .and_then(Value::as_str);
        let kind = kind.unwrap_or_default();
        Self::named(kind).ok_or_else(|| {
            NativeError::Unsupported(format!("the address plugin {kind:?} is unknown"))
        })
    }
}

/// Addresses for a pod; released on drop before [`Self::keep`].
pub(super) struct Lease<'a> {
    call: &'a Call<'a>,
    kept: bool,
}

/// Requests addresses from the configured plugin.
pub(super) fn add<'a>(call: &'a Call<'a>) -> Result<(Lease<'a>, CniResult), NativeError> {
    let result = match IpamKind::of(call)? {
        IpamKind::HostLocal => host_local::add(call)?,
        IpamKind::Static => static_ipam::addresses(call)?,
    };
    let lease = Lease { call, kept: false };
    if result.ips.is_empty() {
        return Err(NativeError::Config(
            "IPAM plugin returned missing IP config".to_owned(),
        ));
    }
    Ok((lease, result))
}

impl Lease<'_> {
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = delete(self.call)
        {
            tracing::warn!(%error, container = self.call.container_id, "cannot release addresses");
        }
    }
}

/// Returns the addresses to the configured plugin.
pub(super) fn delete(call: &Call<'_>) -> Result<(), NativeError> {
    match IpamKind::of(call)? {
        IpamKind::HostLocal => host_local::delete(call),
        IpamKind::Static => Ok(()),
    }
}

/// Runs CHECK, STATUS and GC, which do not change the pod's addresses.
pub(super) fn other(call: &Call<'_>) -> Result<(), NativeError> {
    match (IpamKind::of(call)?, call.verb) {
        (IpamKind::HostLocal, Verb::Check) => host_local::check(call),
        (IpamKind::HostLocal, Verb::Status) => host_local::status(call),
        (IpamKind::HostLocal, Verb::Gc) => host_local::collect(call, &valid_attachments(call)?),
        (IpamKind::Static, Verb::Check) => static_ipam::check(call),
        _ => Ok(()),
    }
}

/// Returns the attachments that GC must keep. Without the list nothing is garbage.
fn valid_attachments(call: &Call<'_>) -> Result<Vec<(String, String)>, NativeError> {
    let list = call
        .conf
        .get("cni.dev/valid-attachments")
        .and_then(Value::as_array);
    let list = list.ok_or_else(|| {
        NativeError::Config("GC without the list of valid attachments".to_owned())
    })?;
    let text = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Ok(list
        .iter()
        .map(|value| (text(value, "containerID"), text(value, "ifname")))
        .collect())
}
