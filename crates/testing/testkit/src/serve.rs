//! Servers with their own thread and reactor, so that blocking tests can use them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::JoinHandle;

use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;

/// A thread with a reactor, stopped on drop with its tasks.
#[derive(Debug)]
pub(crate) struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Serves each connection of a listener with `serve`.
    pub(crate) fn on_tcp<F>(
        listener: TcpListener,
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        listener
            .set_nonblocking(true)
            .expect("make a socket non-blocking");
        Self::start(async move || {
            let listener = tokio::net::TcpListener::from_std(listener);
            let listener = listener.expect("hand over a socket");
            accept_all(async || Ok(listener.accept().await?.0), serve).await;
        })
    }

    /// Serves each connection of a new socket at this path.
    pub(crate) fn at<F>(path: &Path, serve: impl Fn(UnixStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = UnixListener::bind(path).expect("make a socket");
        listener
            .set_nonblocking(true)
            .expect("make a socket non-blocking");
        Self::start(async move || {
            let listener = tokio::net::UnixListener::from_std(listener);
            let listener = listener.expect("hand over a socket");
            accept_all(async || Ok(listener.accept().await?.0), serve).await;
        })
    }

    /// Runs `serve`. Calls in progress are dropped at the end, as if the process had died.
    pub(crate) fn start(serve: impl AsyncFnOnce() + Send + 'static) -> Self {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let reactor = reactor();
            reactor.block_on(async {
                tokio::select! {
                    () = serve() => {}
                    _ = stopped => {}
                }
            });
            reactor.shutdown_background();
        });
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

async fn accept_all<S, F>(accept: impl AsyncFn() -> io::Result<S>, serve: impl Fn(S) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        if let Ok(stream) = accept().await {
            // The task ends with the reactor.
            tokio::spawn(serve(stream));
        }
    }
}

/// Creates a reactor for this thread.
pub fn reactor() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("start a reactor")
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A server on a free loopback port.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    _accepting: Background,
}

impl Server {
    /// Runs `serve` for each connection.
    pub(crate) fn start<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").expect("find a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        Self {
            address,
            _accepting: Background::on_tcp(listener, serve),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}
