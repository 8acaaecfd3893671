//! More threads and processes than the system lets there be.

use std::error::Error as StdError;
use std::io;

/// No thread and no process can be started, because there are as many as may be.
#[derive(Debug, thiserror::Error)]
#[error(
    "there are as many threads and processes as may be; raise what limits them (TasksMax or pids.max of the \
     service's cgroup or of one above it, ulimit -u, kernel.threads-max, kernel.pid_max)"
)]
pub struct NoThread(#[source] io::Error);

impl NoThread {
    /// Whether this is why it failed.
    pub fn is_cause(error: &(dyn StdError + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            let told = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            if error.is::<Self>() || told.is_some_and(<dyn StdError + Send + Sync>::is::<Self>) {
                return true;
            }
            next = error.source();
        }
        false
    }
}

/// What starting a thread or a process came to. clone(2) says only that it should be tried again where there
/// are too many.
pub fn started<T>(outcome: io::Result<T>) -> io::Result<T> {
    outcome.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::other(NoThread(error)),
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("doing this")]
    struct Doing(#[source] io::Error);

    #[test]
    fn a_limit_that_is_reached_is_known_for_what_it_is() {
        let full = || io::Error::from(io::ErrorKind::WouldBlock);
        let error = started::<()>(Err(full())).unwrap_err();
        assert!(error.to_string().contains("pids.max"), "{error}");
        assert!(NoThread::is_cause(&error));
        assert!(NoThread::is_cause(&Doing(error)));
        assert!(!NoThread::is_cause(&Doing(full())));
        let other = started::<()>(Err(io::ErrorKind::NotFound.into())).unwrap_err();
        assert!(!NoThread::is_cause(&other));
    }
}
