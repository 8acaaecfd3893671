//! The connections of all listeners as one bounded stream, as tonic takes them.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::{self, Stream, StreamExt, select_all};
use orlop_door::{Connection, Listener, accept};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::UCred;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;
use tonic::transport::server::Connected;

use crate::rpc::Peer;
use crate::serve::authority::Reading;
use crate::serve::guests::{Guests, Place};

/// The connections that come to any of the listeners, at most so many at once: a
/// further one takes the [place](Guests) of one that asks for nothing, else it waits,
/// all but one per listener in the kernel's queue. A request that is on its way to a connection
/// while that is taken away is not answered: gRPC's libraries say `UNAVAILABLE` to who sent it. Told to stop it listens no more, and
/// goes on without end: it is not for it to say when those that it let in have been served.
pub(super) fn incoming(
    listeners: Vec<Listener>,
    most: usize,
    newcomers: TaskTracker,
    stop: CancellationToken,
) -> impl Stream<Item = Result<Client, Infallible>> {
    let guests = Guests::new(most);
    let clients = select_all(listeners.into_iter().map(move |listener| {
        let (guests, newcomers) = (Arc::clone(&guests), newcomers.clone());
        stream::unfold(
            (listener, guests, newcomers),
            async |(listener, guests, newcomers)| {
                // Accepted first: a listener that nobody comes to must not hold a place.
                let connection = accept(&listener, "cannot accept a connection").await;
                let room = guests.room().await;
                let peer = Peer::new(credentials(&connection), newcomers.token());
                let client = Client {
                    place: guests.enter(peer.clone(), room),
                    lost: Box::pin(peer.left()),
                    peer,
                    connection,
                    reading: Reading::new(),
                };
                Some((Ok(client), (listener, guests, newcomers)))
            },
        )
        .boxed()
    }));
    let stopped = stop.cancelled_owned();
    clients.take_until(stopped).chain(stream::pending())
}

/// Who is at the other end.
fn credentials(connection: &Connection) -> Option<UCred> {
    match connection {
        Connection::Unix(stream) => stream.peer_cred().ok(),
        Connection::Tcp(_) => None,
    }
}

/// A connection, with its place among the connections.
#[derive(Debug)]
pub(super) struct Client {
    connection: Connection,
    reading: Reading,
    peer: Peer,
    place: Place,
    /// As the place tells those who read; who writes need not be woken with them.
    lost: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Client {
    /// A client that does not read has its socket full: who writes would not come to read that it is to leave.
    fn poll_there(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.lost.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::BrokenPipe.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl Connected for Client {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Client {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.place.poll_lost(context).is_ready() {
            // To who serves it, the client has left.
            return Poll::Ready(Ok(()));
        }
        this.reading
            .poll_read(&mut this.connection, context, buffer)
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_there(context)?;
        Pin::new(&mut self.connection).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_there(context)?;
        Pin::new(&mut self.connection).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_there(context)?;
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_there(context)?;
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}
