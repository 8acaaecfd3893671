//! MAC spoofing check: a bridge's port accepts only packets from the pod's own Ethernet address.

use super::call::Call;
use super::veth::Veth;
use crate::error::NativeError;
use crate::filter::{self, PortGuard};

/// New rules; removed on drop before [`Self::keep`].
pub(super) struct Prevention<'a> {
    call: &'a Call<'a>,
    kept: bool,
}

/// Drops packets that the pod sends from another Ethernet address than its own.
pub(super) fn prevent<'a>(call: &'a Call<'a>, veth: &Veth) -> Result<Prevention<'a>, NativeError> {
    filter::guard_port(&guard(call), &veth.host.name, veth.pod_mac)?;
    Ok(Prevention { call, kept: false })
}

/// Removes the rules of [`prevent`], if they exist.
pub(super) fn permit(call: &Call<'_>) -> Result<(), NativeError> {
    Ok(filter::unguard_port(&guard(call))?)
}

/// Verifies that the rules of [`prevent`] exist.
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

/// Uses the plugin's names, so that either implementation removes the rules of the other.
fn guard(call: &Call<'_>) -> PortGuard {
    PortGuard::new(&format!("{}-{}", call.container_id, call.if_name))
}
