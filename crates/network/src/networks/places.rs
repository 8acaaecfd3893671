//! Thread pools for work that depends on plugins.
//!
//! A plugin may run until its timeout, and so may the holder of a lock that an in-process plugin needs. Each kind of
//! work has its own pool. So pods can be detached while all attachments hang, and STATUS works while pods can neither
//! be attached nor detached.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop_pool::{Place, Refused};
use tokio::time::timeout;

use super::Networks;
use super::shared::Inner;
use crate::{Error, Status};

/// Maximum queue length: more than the number of pods on a node.
const WAITING: usize = 4096;

static ATTACHING: Place = Place::new("attaching pods to networks", 64, 48, WAITING);
static DETACHING: Place = Place::new("detaching pods from networks", 64, 48, WAITING);
static CHECKING: Place = Place::new("checking pods' networks", 8, 6, WAITING);
/// One thread for garbage collection, one for STATUS; each of them runs one at a time.
static ASKING: Place = Place::new("asking network plugins", 2, 2, WAITING);

/// Timeout of a status query: a kubelet regards a runtime as dead if it does not report its status for half a minute.
const ANSWER: Duration = Duration::from_secs(3);

/// The kinds of plugin work on a pod.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    Attach,
    Detach,
    Check,
}

impl Work {
    fn place(self) -> &'static Place {
        match self {
            Self::Attach => &ATTACHING,
            Self::Detach => &DETACHING,
            Self::Check => &CHECKING,
        }
    }
}

impl Networks {
    /// Runs plugins for a pod. All networks of one directory share its threads, so that those of one runtime handler
    /// do not take all. Running work ends by itself, because every plugin has a timeout.
    pub(super) async fn with_plugins<T: Send + 'static>(
        &self,
        kind: Work,
        conf_dir: &Path,
        work: impl FnOnce(&Inner) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let inner = Arc::clone(&self.inner);
        let owner = conf_dir.to_string_lossy();
        kind.place().run_for(&owner, move || work(&inner)).await?
    }

    /// Runs garbage collection of the plugins.
    pub(super) async fn collecting<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let inner = Arc::clone(&self.inner);
        Ok(ASKING.run(move || work(&inner)).await?)
    }

    /// Reports whether pods can be attached. One caller at a time asks the plugins; a missing answer counts as a
    /// status, too.
    pub async fn status(&self) -> Status {
        match timeout(ANSWER, self.ask()).await {
            Ok(Ok(status)) => status,
            Ok(Err(refused)) => self.inner.reported(refused.to_string()),
            Err(_) => self.inner.reported(format!(
                "the network plugins did not answer STATUS within {ANSWER:?}"
            )),
        }
    }

    async fn ask(&self) -> Result<Status, Refused> {
        let turn = Arc::clone(&self.inner.asking).lock_owned().await;
        let inner = Arc::clone(&self.inner);
        let asked = ASKING.run(move || {
            let _turn = turn;
            inner.status()
        });
        asked.await
    }
}
