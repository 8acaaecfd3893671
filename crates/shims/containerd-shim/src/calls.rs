//! Code that the calls of all services share.

use std::sync::Arc;

use orlop_containerd_api::Message;
use orlop_ttrpc::{Status, code, decode};

use crate::error::Result;
use crate::shim::Shim;

/// Decodes the request of a call that responds at once, and encodes the response.
pub(crate) fn unary<Q: Message + Default, R: Message>(
    shim: &Arc<Shim>,
    request: &[u8],
    call: impl FnOnce(&Arc<Shim>, Q) -> Result<R>,
) -> Result<Option<Vec<u8>>> {
    Ok(Some(call(shim, decode(request)?)?.encode_to_vec()))
}

pub(crate) fn unimplemented(service: &str, method: &str) -> Status {
    let message = format!("this shim does not implement {service}/{method}");
    Status::new(code::UNIMPLEMENTED, message)
}
