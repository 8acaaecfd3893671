//! Accepting: the one loop, which nothing that fails ends.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Out of descriptors, accepting fails at once and without end.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// A silent peer is asked for a sign of life after this time.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// What connections come to.
pub trait Accept: Sync {
    /// A connection.
    type Connection: Send;

    /// The next connection, or why there is none. Nothing is lost if it is not waited for to the end.
    fn try_accept(&self) -> impl Future<Output = io::Result<Self::Connection>> + Send;

    /// Where it listens, for the log.
    fn address(&self) -> String;
}

/// The next connection. What fails is told once, in the words of `doing`, and tried again: there is
/// no error that a server should end of.
pub async fn accept<A: Accept>(listener: &A, doing: &str) -> A::Connection {
    let mut failed = false;
    loop {
        match listener.try_accept().await {
            Ok(connection) => return connection,
            Err(error) => {
                if !failed {
                    tracing::warn!(%error, address = listener.address(), "{doing}");
                }
                failed = true;
                sleep(AFTER_FAILURE).await;
            }
        }
    }
}

/// Accepts connections and has a task for each.
#[derive(Clone, Copy, Debug)]
pub struct AcceptLoop<'a> {
    /// What a failure is told as: "accepting a client".
    pub doing: &'a str,
    /// Connections served at once. Further ones wait in the kernel's queue.
    pub at_once: usize,
    /// How long those that are served at the end may go on.
    pub farewell: Duration,
}

impl AcceptLoop<'_> {
    /// Serves with what `each` makes of a connection, or turns it away where that is nothing. Told to
    /// stop it listens no more, and what outlasts the farewell is aborted; so are all when it is dropped.
    pub async fn run<A, F, R>(self, listener: A, stop: CancellationToken, mut each: F)
    where
        A: Accept,
        F: FnMut(A::Connection) -> Option<R>,
        R: Future<Output = ()> + Send + 'static,
    {
        let mut served = JoinSet::new();
        {
            // It goes on while others end: what failed stays told.
            let mut next = pin!(accept(&listener, self.doing));
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    Some(_) = served.join_next() => {}
                    connection = &mut next, if served.len() < self.at_once => {
                        if let Some(work) = each(connection) {
                            served.spawn(work);
                        }
                        next.set(accept(&listener, self.doing));
                    }
                }
            }
        }
        drop(listener);
        let all = async { while served.join_next().await.is_some() {} };
        if timeout(self.farewell, all).await.is_err() {
            served.shutdown().await;
        }
    }
}

impl Accept for TcpListener {
    type Connection = (TcpStream, SocketAddr);

    async fn try_accept(&self) -> io::Result<Self::Connection> {
        let (stream, peer) = self.accept().await?;
        let _ = stream.set_nodelay(true);
        let _ = sockopt::set_socket_keepalive(&stream, true);
        let _ = sockopt::set_tcp_keepidle(&stream, KEEPALIVE);
        let _ = sockopt::set_tcp_keepintvl(&stream, KEEPALIVE);
        Ok((stream, peer))
    }

    fn address(&self) -> String {
        let address = self.local_addr().map(|address| address.to_string());
        format!("tcp://{}", address.unwrap_or_default())
    }
}

impl Accept for UnixListener {
    type Connection = UnixStream;

    async fn try_accept(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }

    fn address(&self) -> String {
        let address = self.local_addr().ok();
        let path = address.as_ref().and_then(|address| address.as_pathname());
        let path = path.map(|path| path.display().to_string());
        format!("unix://{}", path.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use tokio::sync::{Notify, mpsc};
    use tokio::time::Instant;

    use super::*;

    /// Fails so many times, then has a connection whenever one is asked for.
    #[derive(Default)]
    struct Scripted {
        failures: AtomicUsize,
        tried: AtomicUsize,
    }

    impl Accept for Arc<Scripted> {
        type Connection = usize;

        async fn try_accept(&self) -> io::Result<usize> {
            let tried = self.tried.fetch_add(1, Ordering::Relaxed);
            let left = self.failures.load(Ordering::Relaxed);
            if tried < left {
                return Err(rustix::io::Errno::MFILE.into());
            }
            Ok(tried - left)
        }

        fn address(&self) -> String {
            "nowhere".to_owned()
        }
    }

    const LOOP: AcceptLoop<'_> = AcceptLoop {
        doing: "accepting a client",
        at_once: 2,
        farewell: Duration::ZERO,
    };

    #[tokio::test]
    async fn want_of_descriptors_is_outlived_without_spinning() {
        let listener = Arc::new(Scripted::default());
        listener.failures.store(3, Ordering::Relaxed);
        let begin = Instant::now();
        assert_eq!(accept(&listener, "trying").await, 0);
        assert_eq!(listener.tried.load(Ordering::Relaxed), 4);
        assert!(begin.elapsed() >= 3 * AFTER_FAILURE);
    }

    #[tokio::test]
    async fn so_many_are_served_at_once_and_the_next_when_one_ends() {
        let (stop, end) = (CancellationToken::new(), Arc::new(Notify::new()));
        let (sender, mut came) = mpsc::unbounded_channel();
        let one_ends = Arc::clone(&end);
        let each = move |which| {
            sender.send(which).unwrap();
            let end = Arc::clone(&one_ends);
            Some(async move { end.notified().await })
        };
        let listener = Arc::new(Scripted::default());
        let accepting = tokio::spawn(LOOP.run(listener, stop.clone(), each));
        assert_eq!((came.recv().await, came.recv().await), (Some(0), Some(1)));
        sleep(Duration::from_millis(50)).await;
        came.try_recv().unwrap_err();
        end.notify_one();
        assert_eq!(came.recv().await, Some(2));
        stop.cancel();
        accepting.await.unwrap();
    }

    #[tokio::test]
    async fn who_is_turned_away_takes_no_place() {
        let (sender, mut came) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let full = stop.clone();
        let each = move |which| {
            sender.send(which).unwrap();
            if which == 9 {
                full.cancel();
            }
            None::<std::future::Ready<()>>
        };
        LOOP.run(Arc::new(Scripted::default()), stop, each).await;
        assert_eq!(came.recv_many(&mut Vec::new(), 100).await, 10);
    }

    #[tokio::test]
    async fn at_the_end_nobody_is_heard_any_more_and_nobody_outlasts_the_farewell() {
        const SOON: Duration = Duration::from_millis(100);
        const LATE: Duration = Duration::from_secs(20);
        let listener = Arc::new(Scripted::default());
        let heard = Arc::downgrade(&listener);
        let stop = CancellationToken::new();
        let ended = Arc::new(Mutex::new(Vec::new()));
        let (note, stopping) = (Arc::clone(&ended), stop.clone());
        let each = move |which: usize| {
            let (note, stopping, heard) = (Arc::clone(&note), stopping.clone(), heard.clone());
            Some(async move {
                if which == 1 {
                    stopping.cancel();
                }
                sleep([SOON, LATE][which]).await;
                note.lock().unwrap().push((which, heard.strong_count()));
            })
        };
        let farewell = Duration::from_secs(1);
        let begin = Instant::now();
        let accepting = AcceptLoop { farewell, ..LOOP };
        accepting.run(listener, stop, each).await;
        assert_eq!(*ended.lock().unwrap(), [(0, 0)]);
        assert!(begin.elapsed() < LATE);
    }
}
