//! State that all requests share.

use std::sync::Arc;

use orlop_cri_api::client::Connection;
use tokio::sync::Semaphore;

use crate::access::Access;
use crate::extras::Extras;
use crate::live::Hub;

/// Maximum number of concurrent log streams.
pub(crate) const MOST_LOGS: usize = 8;

/// State that all requests share.
pub(crate) struct Node {
    pub(crate) cri: Connection,
    pub(crate) access: Access,
    pub(crate) hub: Arc<Hub>,
    pub(crate) shows_environment: bool,
    pub(crate) extras: Option<Arc<dyn Extras>>,
    /// Permits for log streams.
    pub(crate) logs: Arc<Semaphore>,
}
