//! Commands under way in containers, and who waits for their end.

use std::collections::HashMap;

use orlop_launch::ExitStatus;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::record::ids::PodId;
use crate::record::pod::Pod;

/// The commands that somebody waits for.
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
    /// Announces a command before it is started: it may end at once. The receiver fails if the
    /// pod's keeper is lost.
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

    /// Nobody waits any more.
    pub fn forget(&self, exec: &str) {
        self.lock().remove(exec);
    }

    /// Whether somebody waits for a command.
    pub fn awaits(&self, exec: &str) -> bool {
        self.lock().contains_key(exec)
    }

    /// A command has ended.
    pub fn ended(&self, exec: &str, status: ExitStatus) {
        if let Some(waiting) = self.lock().remove(exec) {
            let _ = waiting.tell.send(status);
        }
    }

    /// No command of this pod will be heard of again.
    pub fn abandon(&self, pod: &Pod) {
        self.lock().retain(|_, waiting| waiting.pod != pod.id);
    }

    /// How many are under way.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock()
    }
}
