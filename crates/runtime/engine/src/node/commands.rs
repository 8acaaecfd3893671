//! Exec commands that run in containers, and the calls that wait for their exit status.

use std::collections::HashMap;

use orlop_launch::ExitStatus;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::record::ids::PodId;
use crate::record::pod::Pod;

/// Running exec commands whose exit status a call is waiting for.
#[derive(Debug, Default)]
pub struct Commands {
    waiting: Mutex<HashMap<String, Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    pod: PodId,
    tell: oneshot::Sender<ExitStatus>,
}

impl Commands {
    /// Registers a command before it is started, because it may exit at once. The receiver fails if the pod's
    /// keeper is lost.
    pub fn expect(&self, exec: &str, pod: &Pod) -> oneshot::Receiver<ExitStatus> {
        let (tell, end) = oneshot::channel();
        self.lock().insert(
            exec.to_owned(),
            Waiting {
                pod: pod.id.clone(),
                tell,
            },
        );
        end
    }

    /// Removes a command that has no waiter any more.
    pub fn forget(&self, exec: &str) {
        self.lock().remove(exec);
    }

    /// Whether a command has a waiter.
    pub fn awaits(&self, exec: &str) -> bool {
        self.lock().contains_key(exec)
    }

    /// Passes the exit status of a command to its waiter.
    pub fn ended(&self, exec: &str, status: ExitStatus) {
        if let Some(waiting) = self.lock().remove(exec) {
            let _ = waiting.tell.send(status);
        }
    }

    /// Drops the waiters of a pod whose commands will not be reported any more.
    pub fn abandon(&self, pod: &Pod) {
        self.lock().retain(|_, waiting| waiting.pod != pod.id);
    }

    /// Returns the number of commands with a waiter.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock()
    }
}
