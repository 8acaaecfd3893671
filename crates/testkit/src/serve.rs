//! A listening socket with a thread and a reactor of its own, so that blocking tests can use it.

use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Serves connections on a free loopback port until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Runs `serve` for each connection.
    pub(crate) fn start<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").expect("find a free port");
        listener
            .set_nonblocking(true)
            .expect("make a socket non-blocking");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("start a reactor")
                .block_on(async {
                    tokio::select! {
                        () = accept(listener, serve) => {}
                        _ = stopped => {}
                    }
                });
        });
        Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = tokio::net::TcpListener::from_std(listener).expect("hand over a socket");
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            // Ends with the reactor, thus with the server.
            tokio::spawn(serve(stream));
        }
    }
}
