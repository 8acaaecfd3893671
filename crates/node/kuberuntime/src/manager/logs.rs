//! Log requests to the manager.

use bytes::Bytes;
use orlop_kubelet_rules::status::ContainerState;
use orlop_pool::{Place, Refused};
use tokio::sync::mpsc;

use super::Manager;
use crate::error::RequestError;
use crate::logs::{LogQuery, Source, read};

/// Limits of concurrent log reads: a followed log occupies a thread until its reader leaves.
const OF_NODE: usize = 256;
const OF_POD: usize = 32;
static READING: Place = Place::new("reading containers' logs", OF_NODE, OF_POD, 0);

/// A stream of log lines. The channel is short, so that a slow reader slows the reading down.
#[derive(Debug)]
pub struct LogReader {
    pub(super) parts: mpsc::Receiver<Result<Bytes, RequestError>>,
}

impl LogReader {
    /// Returns the next lines; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, RequestError>> {
        self.parts.recv().await
    }
}

impl Manager {
    /// Reads a container's log, including its rotated parts.
    #[allow(
        clippy::unused_async,
        reason = "as all that asks for something of a container"
    )]
    pub async fn container_logs(
        &self,
        uid: &str,
        container: &str,
        query: LogQuery,
    ) -> Result<LogReader, RequestError> {
        let worker = self.worker(uid)?;
        let (_, seen) = worker.snapshot();
        let instances = seen.status.containers().iter();
        let mut instances = instances.filter(|c| c.name == container);
        let mut found = instances.next();
        if query.previous {
            // The newest instance that has exited, whether it is the current one or an earlier one.
            found = match found {
                Some(c) if c.state == ContainerState::Exited => Some(c),
                _ => instances.next(),
            };
        }
        let found = found.filter(|c| c.state != ContainerState::Created);
        let found = found.ok_or_else(|| RequestError::NoContainer {
            pod: uid.to_owned(),
            container: container.to_owned(),
        })?;
        let id = found.id.clone();
        let source = Source {
            id: id.clone(),
            path: found.log_path.clone().into(),
            is_running: Box::new(move || {
                let seen = worker.observation();
                let state = seen
                    .status
                    .containers()
                    .iter()
                    .find(|c| c.id == id)
                    .map(|c| c.state);
                matches!(
                    state,
                    Some(ContainerState::Running | ContainerState::Unknown)
                )
            }),
        };
        let (out, parts) = mpsc::channel(16);
        // Reading is as fast as the receiver.
        let path = source.path.clone();
        let reading = READING.begin_for(uid, move || read(&source, &query, &out));
        reading.map_err(|refused| match refused {
            Refused::NoThread { source, .. } => RequestError::Log { path, source },
            Refused::Full { .. } | Refused::Panicked { .. } => RequestError::Crowded {
                of_pod: OF_POD,
                of_node: OF_NODE,
            },
        })?;
        Ok(LogReader { parts })
    }
}
