//! Where work waits that depends on plugins.
//!
//! A plugin may take as long as it is allowed to, and so may whoever holds a lock that one done in
//! process needs. Each kind of work has its own place, so that pods can be detached while all
//! attachments hang, and the node can be asked how it is while pods are neither attached nor
//! detached.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop_pool::{Place, Refused};
use tokio::time::timeout;

use super::Networks;
use super::shared::Inner;
use crate::{Error, Status};

/// More pods than a node has may wait.
const WAITING: usize = 4096;

static ATTACHING: Place = Place::new("attaching pods to networks", 64, 48, WAITING);
static DETACHING: Place = Place::new("detaching pods from networks", 64, 48, WAITING);
static CHECKING: Place = Place::new("checking pods' networks", 8, 6, WAITING);
/// One that collects, one that is asked how the network is; both are one at a time.
static ASKING: Place = Place::new("asking network plugins", 2, 2, WAITING);

/// Who asks how the network is gets an answer by then: kubelets take a runtime for dead that does
/// not say how it is for half a minute.
const ANSWER: Duration = Duration::from_secs(3);

/// What is done with a pod.
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
    /// Has plugins work on a pod. Networks described in one directory share its threads, so that
    /// those of one runtime handler do not take all. What runs ends by itself: every plugin has a
    /// timeout.
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

    /// Has plugins collect what belongs to nobody.
    pub(super) async fn collecting<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let inner = Arc::clone(&self.inner);
        Ok(ASKING.run(move || work(&inner)).await?)
    }

    /// Whether pods can be attached. Plugins are asked by one caller at a time; that they do not
    /// answer is an answer, too.
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
