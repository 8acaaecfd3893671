//! The node that all requests are about, and the state that they share.

use std::sync::Arc;

use orlop_cri_api::client::Connection;
use tokio::sync::Semaphore;

use crate::access::Access;
use crate::extras::Extras;
use crate::live::Hub;

/// Logs that are followed at once.
pub(crate) const MOST_LOGS: usize = 8;

/// What all requests are about.
pub(crate) struct Node {
    pub(crate) cri: Connection,
    pub(crate) access: Access,
    pub(crate) hub: Arc<Hub>,
    pub(crate) shows_environment: bool,
    pub(crate) extras: Option<Arc<dyn Extras>>,
    /// Places for those who follow logs.
    pub(crate) logs: Arc<Semaphore>,
}
