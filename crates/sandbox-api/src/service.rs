//! A service whose methods are known by their names.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, UnaryService};

use crate::codec::Raw;

pub(crate) type Answer = Result<Vec<u8>, Status>;
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Which namespace of containerd's a call is about.
const NAMESPACE: &str = "containerd-namespace";

/// A call as it came.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) namespace: String,
    pub(crate) message: Bytes,
}

/// What answers the calls of a service.
pub(crate) trait Methods: Clone + Send + 'static {
    fn answer(self, call: Call) -> BoxFuture<Answer>;
}

struct Handler<M> {
    methods: M,
    method: String,
}

impl<M: Methods> UnaryService<Bytes> for Handler<M> {
    type Response = Bytes;
    type Future = BoxFuture<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let namespace = namespace_of(request.metadata());
        let call = Call {
            method: std::mem::take(&mut self.method),
            namespace,
            message: request.into_inner(),
        };
        let answer = self.methods.clone().answer(call);
        Box::pin(async move { answer.await.map(|it| tonic::Response::new(it.into())) })
    }
}

fn namespace_of(metadata: &MetadataMap) -> String {
    let named = metadata.get(NAMESPACE).and_then(|name| name.to_str().ok());
    named.unwrap_or("default").to_owned()
}

/// Answers a request by these methods.
pub(crate) fn serve<M: Methods + Sync>(
    methods: M,
    request: Request<Body>,
) -> BoxFuture<Result<Response<Body>, Infallible>> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default();
    let handler = Handler {
        methods,
        method: method.to_owned(),
    };
    Box::pin(async move { Ok(Grpc::new(Raw).unary(handler, request).await) })
}

pub(crate) fn ready(_: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
    Poll::Ready(Ok(()))
}

/// Makes a service of something that has methods.
macro_rules! service {
    ($name:ty, $service:literal) => {
        impl tonic::server::NamedService for $name {
            const NAME: &'static str = $service;
        }

        impl tower_service::Service<http::Request<tonic::body::Body>> for $name {
            type Response = http::Response<tonic::body::Body>;
            type Error = std::convert::Infallible;
            type Future = $crate::service::BoxFuture<Result<Self::Response, Self::Error>>;

            fn poll_ready(
                &mut self,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<(), Self::Error>> {
                $crate::service::ready(context)
            }

            fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
                $crate::service::serve(self.clone(), request)
            }
        }
    };
}
pub(crate) use service;
