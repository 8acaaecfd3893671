//! A bridge's port lets through only what bears the pod's own Ethernet address.

use super::call::Call;
use super::veth::Veth;
use crate::error::NativeError;
use crate::filter::{self, PortGuard};

/// Rules just made; removed again when dropped before [`Self::keep`].
pub(super) struct Prevention<'a> {
    call: &'a Call<'a>,
    kept: bool,
}

/// Drops what the pod sends under another Ethernet address than its own.
pub(super) fn prevent<'a>(call: &'a Call<'a>, veth: &Veth) -> Result<Prevention<'a>, NativeError> {
    filter::guard_port(&guard(call), &veth.host.name, veth.pod_mac)?;
    Ok(Prevention { call, kept: false })
}

/// Removes what [`prevent`] made, if it is there.
pub(super) fn permit(call: &Call<'_>) -> Result<(), NativeError> {
    Ok(filter::unguard_port(&guard(call))?)
}

/// Whether what [`prevent`] made is there.
pub(super) fn verify(call: &Call<'_>) -> Result<(), NativeError> {
    let guard = guard(call);
    if filter::port_is_guarded(&guard)? {
        return Ok(());
    }
    Err(NativeError::Check(format!(
        "the chain {}, which drops packets with other MAC addresses, is missing",
        guard.chain()
    )))
}

impl Prevention<'_> {
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Prevention<'_> {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = permit(self.call)
        {
            tracing::warn!(%error, container = self.call.container_id, "cannot remove the packet filter rules of a failed attachment");
        }
    }
}

/// Named as the plugin names it, so that either removes what the other made.
fn guard(call: &Call<'_>) -> PortGuard {
    PortGuard::new(&format!("{}-{}", call.container_id, call.if_name))
}
