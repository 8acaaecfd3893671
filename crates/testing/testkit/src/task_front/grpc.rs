//! gRPC server of the front.

use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use futures_util::future::BoxFuture;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tonic::server::{Grpc, StreamingService, UnaryService};
use tonic::{Code, Request, Response, Status, Streaming};

use super::streams::Stream;
use super::{STREAMING, TaskFront};
use crate::raw::Raw;
use crate::serve::reactor;

pub(super) fn serve(front: Arc<TaskFront>, listener: UnixListener) {
    thread::spawn(move || {
        reactor().block_on(async move {
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
            let refused = |(code, message)| Status::new(Code::from_i32(code), message);
            called.map(Response::new).map_err(refused)
        })
    }
}

/// The streaming method.
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
