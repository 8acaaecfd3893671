//! The accept loop, which continues after every failure.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::activity::Activity;
use crate::connections::{ConnectionLimits, Connections, Origin, Slot};

/// Without free descriptors, `accept` fails immediately and repeatedly.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// TCP keepalive starts after a peer is silent for this time.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A listener for connections.
pub trait Accept: Sync {
    /// A connection.
    type Connection: Send;

    /// Accepts the next connection. It is cancel safe.
    fn try_accept(&self) -> impl Future<Output = io::Result<Self::Connection>> + Send;

    /// Returns the address, for the log.
    fn address(&self) -> String;

    /// Returns the peer of a connection.
    fn origin(connection: &Self::Connection) -> Origin;
}

/// Accepts the next connection. A failure is logged once, with the words of `doing`, and retried: no failure should
/// stop a server.
async fn accept<A: Accept>(listener: &A, doing: &str) -> A::Connection {
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

/// Accepts the next connection, and waits until the limits allow one more.
pub async fn enter<A: Accept>(
    listener: &A,
    connections: &Arc<Connections>,
    doing: &str,
) -> (A::Connection, Slot) {
    // Accepts first: a listener without connections must not hold a slot.
    let connection = accept(listener, doing).await;
    let slot = connections.enter(A::origin(&connection)).await;
    (connection, slot)
}

/// Accepts connections within limits and runs a task for each.
#[derive(Clone, Copy, Debug)]
pub struct AcceptLoop<'a> {
    /// The action named in error messages: "accepting a client".
    pub doing: &'a str,
    /// Limit of connections served at once. Further ones wait in the kernel's queue.
    pub limits: ConnectionLimits,
    /// A connection that sent no request within this time, TLS handshake included, is closed.
    pub first_request: Duration,
    /// Time that open connections may continue after a stop.
    pub farewell: Duration,
}

impl<'a> AcceptLoop<'a> {
    /// Returns a loop that serves at most `connections` at a time and closes them when it stops. A connection has ten
    /// seconds for its first request.
    pub const fn new(doing: &'a str, connections: usize) -> Self {
        Self {
            doing,
            limits: ConnectionLimits::of(connections),
            first_request: Duration::from_secs(10),
            farewell: Duration::ZERO,
        }
    }

    /// Serves each connection with the future of `each`, which is dropped when the connection is closed in favor of
    /// another one. After a stop the loop no longer listens, and aborts connections that exceed `farewell`. Dropping
    /// the future aborts all of them.
    pub async fn run<A, F, R>(self, listener: A, stop: CancellationToken, mut each: F)
    where
        A: Accept,
        F: FnMut(A::Connection, Activity) -> R,
        R: Future<Output = ()> + Send + 'static,
    {
        let connections = Connections::new(self.limits);
        let mut served = JoinSet::new();
        {
            // Kept while other connections end, so that a logged failure is not logged again.
            let mut next = pin!(enter(&listener, &connections, self.doing));
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    Some(_) = served.join_next() => {}
                    (connection, slot) = &mut next => {
                        let work = each(connection, slot.activity().clone());
                        served.spawn(serve(slot, self.first_request, work));
                        next.set(enter(&listener, &connections, self.doing));
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

async fn serve(slot: Slot, first_request: Duration, work: impl Future<Output = ()>) {
    tokio::select! {
        () = slot.activity().closed_or_silent(first_request) => {}
        () = work => {}
    }
}

impl<T: Accept + Send> Accept for Arc<T> {
    type Connection = T::Connection;

    async fn try_accept(&self) -> io::Result<Self::Connection> {
        T::try_accept(self).await
    }

    fn address(&self) -> String {
        T::address(self)
    }

    fn origin(connection: &Self::Connection) -> Origin {
        T::origin(connection)
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

    fn origin((_, peer): &Self::Connection) -> Origin {
        Origin::of_address(peer.ip())
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

    fn origin(connection: &UnixStream) -> Origin {
        Origin::of_process(connection.peer_cred().ok().and_then(|peer| peer.pid()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::{Notify, Semaphore, mpsc};
    use tokio::time::Instant;

    use super::*;

    /// Fails this many times, then returns a connection for each call.
    #[derive(Default)]
    struct Scripted {
        failures: AtomicUsize,
        tried: AtomicUsize,
    }

    impl Accept for Scripted {
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

        fn origin(_: &usize) -> Origin {
            Origin::Unknown
        }
    }

    const LOOP: AcceptLoop<'_> = AcceptLoop::new("accepting a client", 2);

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
        let each = move |which, activity: Activity| {
            sender.send(which).unwrap();
            let (end, busy) = (Arc::clone(&one_ends), activity.request());
            async move {
                end.notified().await;
                drop(busy);
            }
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
    async fn connections_that_say_nothing_make_room_and_end_in_time() {
        const LIMIT: Duration = Duration::from_millis(300);
        let (sender, mut ended) = mpsc::unbounded_channel();
        let each = move |which, activity: Activity| {
            let busy = (which == 0).then(|| activity.request());
            let note = Note(which, sender.clone());
            async move {
                let _held = (busy, note);
                std::future::pending::<()>().await;
            }
        };
        let accepting = AcceptLoop {
            first_request: LIMIT,
            ..LOOP
        };
        let listener = Limited(Semaphore::new(5), Scripted::default());
        let begin = Instant::now();
        let accepting = tokio::spawn(accepting.run(listener, CancellationToken::new(), each));
        let mut first = Vec::new();
        for _ in 0..4 {
            first.push(ended.recv().await.unwrap());
        }
        assert_eq!(first, [1, 2, 3, 4]);
        assert!(
            begin.elapsed() >= LIMIT,
            "nobody needed the last one's slot"
        );
        sleep(LIMIT).await;
        ended.try_recv().unwrap_err();
        accepting.abort();
    }

    /// Sends a number when it is dropped.
    struct Note(usize, mpsc::UnboundedSender<usize>);

    impl Drop for Note {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    /// A listener that accepts this number of connections only.
    struct Limited(Semaphore, Scripted);

    impl Accept for Limited {
        type Connection = usize;

        async fn try_accept(&self) -> io::Result<usize> {
            self.0.acquire().await.unwrap().forget();
            self.1.try_accept().await
        }

        fn address(&self) -> String {
            self.1.address()
        }

        fn origin(connection: &usize) -> Origin {
            Scripted::origin(connection)
        }
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
        let each = move |which: usize, activity: Activity| {
            let (note, stopping, heard) = (Arc::clone(&note), stopping.clone(), heard.clone());
            let busy = activity.request();
            async move {
                let _busy = busy;
                if which == 1 {
                    stopping.cancel();
                }
                sleep([SOON, LATE][which]).await;
                note.lock().unwrap().push((which, heard.strong_count()));
            }
        };
        let farewell = Duration::from_secs(1);
        let begin = Instant::now();
        let accepting = AcceptLoop { farewell, ..LOOP };
        accepting.run(listener, stop, each).await;
        assert_eq!(*ended.lock().unwrap(), [(0, 0)]);
        assert!(begin.elapsed() < LATE);
    }
}
