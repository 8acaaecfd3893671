//! Errors because of system limits on threads and processes.

use std::error::Error as StdError;
use std::io;

/// A thread or process cannot be started because of a lack of resources, not because of what was to run.
#[derive(Debug, thiserror::Error)]
pub enum NoThread {
    /// The limit of threads and processes is reached.
    #[error(
        "the limit of threads and processes is reached; raise it (TasksMax or pids.max of the \
         service's cgroup or a parent, ulimit -u, kernel.threads-max, kernel.pid_max)"
    )]
    Tasks(#[source] io::Error),
    /// There is not enough memory for another one.
    #[error(
        "not enough memory for another thread or process; free memory or raise the limit \
         (MemoryMax or memory.max of the service's cgroup or a parent, vm.overcommit_memory)"
    )]
    Memory(#[source] io::Error),
    /// The limit of open files is reached.
    #[error(
        "the limit of open files is reached; raise it (LimitNOFILE of the service, ulimit -n, \
         fs.file-max)"
    )]
    Files(#[source] io::Error),
}

/// `ENFILE` and `EMFILE`, which have the same numbers everywhere on Linux, and no kind in the standard library.
const FILES: [i32; 2] = [23, 24];

impl NoThread {
    /// Returns whether this is a cause of the error.
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

/// Adds the cause to a failure to start a thread or process. clone(2) reports only EAGAIN if there are too many.
pub fn started<T>(outcome: io::Result<T>) -> io::Result<T> {
    outcome.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::other(NoThread::Tasks(error)),
        io::ErrorKind::OutOfMemory => io::Error::other(NoThread::Memory(error)),
        _ if error.raw_os_error().is_some_and(|it| FILES.contains(&it)) => {
            io::Error::other(NoThread::Files(error))
        }
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
        for (number, way_out) in [(12, "memory.max"), (23, "fs.file-max"), (24, "LimitNOFILE")] {
            let error = io::Error::from_raw_os_error(number);
            let error = started::<()>(Err(error)).unwrap_err();
            assert!(error.to_string().contains(way_out), "{error}");
            assert!(NoThread::is_cause(&error));
        }
        let other = started::<()>(Err(io::ErrorKind::NotFound.into())).unwrap_err();
        assert!(!NoThread::is_cause(&other));
    }
}
