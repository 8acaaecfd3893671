//! The front by gRPC.

use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use bytes::{Buf, BufMut};
use futures_util::future::BoxFuture;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, StreamingService, UnaryService};
use tonic::{Code, Request, Response, Status, Streaming};

use super::streams::Stream;
use super::{STREAMING, TaskFront};

pub(super) fn serve(front: Arc<TaskFront>, listener: UnixListener) {
    thread::spawn(move || {
        let reactor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a reactor");
        reactor.block_on(async move {
            listener.set_nonblocking(true).expect("a listener");
            let listener = tokio::net::UnixListener::from_std(listener).expect("a listener");
            while let Ok((client, _)) = listener.accept().await {
                let front = Arc::clone(&front);
                let service = hyper::service::service_fn(move |request| {
                    let front = Arc::clone(&front);
                    async move { Ok::<_, std::convert::Infallible>(answer(front, request).await) }
                });
                let connection = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(client), service);
                tokio::spawn(connection);
            }
        });
    });
}

async fn answer(
    front: Arc<TaskFront>,
    request: http::Request<hyper::body::Incoming>,
) -> http::Response<tonic::body::Body> {
    let path = request.uri().path().to_owned();
    let mut words = path.trim_start_matches('/').split('/').map(str::to_owned);
    let service = words.next().unwrap_or_default();
    let method = words.next().unwrap_or_default();
    let mut grpc = Grpc::new(Raw);
    if service == STREAMING {
        return grpc.streaming(Opened(front), request).await;
    }
    let call = Call {
        front,
        service,
        method,
    };
    grpc.unary(call, request).await
}

struct Call {
    front: Arc<TaskFront>,
    service: String,
    method: String,
}

impl UnaryService<Vec<u8>> for Call {
    type Response = Vec<u8>;
    type Future = BoxFuture<'static, Result<Response<Vec<u8>>, Status>>;

    fn call(&mut self, request: Request<Vec<u8>>) -> Self::Future {
        let (service, method) = (self.service.clone(), self.method.clone());
        let front = Arc::clone(&self.front);
        Box::pin(async move {
            let called = tokio::task::spawn_blocking(move || {
                front.call(&service, &method, request.into_inner())
            });
            let called = called
                .await
                .map_err(|error| Status::internal(error.to_string()))?;
            let refused = |(code, message)| Status::new(Code::from_i32(code as i32), message);
            called.map(Response::new).map_err(refused)
        })
    }
}

/// The method on which both sides speak.
struct Opened(Arc<TaskFront>);

type Said = Pin<Box<dyn futures_util::Stream<Item = Result<Vec<u8>, Status>> + Send>>;

impl StreamingService<Vec<u8>> for Opened {
    type Response = Vec<u8>;
    type ResponseStream = Said;
    type Future = BoxFuture<'static, Result<Response<Said>, Status>>;

    fn call(&mut self, request: Request<Streaming<Vec<u8>>>) -> Self::Future {
        let front = Arc::clone(&self.0);
        Box::pin(async move {
            let mut heard = request.into_inner();
            let (to, hear) = channel();
            let (say, mut said) = tokio::sync::mpsc::channel(4);
            tokio::spawn(async move {
                let Ok(Some(init)) = heard.message().await else {
                    return;
                };
                let say = Box::new(move |bytes| say.blocking_send(bytes).is_ok());
                let stream = Stream { say, hear };
                let registered = tokio::task::spawn_blocking(move || front.register(&init, stream));
                if registered.await.is_err() {
                    return;
                }
                while let Ok(Some(bytes)) = heard.message().await {
                    if to.send(bytes).is_err() {
                        return;
                    }
                }
            });
            let said = futures_util::stream::poll_fn(move |context| {
                said.poll_recv(context).map(|bytes| bytes.map(Ok))
            });
            let said: Said = Box::pin(said);
            Ok(Response::new(said))
        })
    }
}

/// Messages as they are encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut bytes = vec![0; from.remaining()];
        from.copy_to_slice(&mut bytes);
        Ok(Some(bytes))
    }
}
