//! Server of the admin service.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic_prost::ProstCodec;
use tower::Service;

use super::SERVICE;
use crate::config::Changes;
use crate::serve::control::{Control, Look};

/// The admin service. It has no protobuf definition: the messages are too few, so it dispatches on the method name.
#[derive(Clone)]
pub(crate) struct Admin(pub(crate) Control);

#[derive(Debug, Clone, Copy)]
enum Method {
    GetLogLevel,
    SetLogLevel,
    Reload,
    Look(Look),
    Profile,
}

impl Admin {
    async fn answer(self, method: Method, text: String) -> Result<String, Status> {
        let Self(control) = self;
        match method {
            Method::GetLogLevel => {}
            Method::SetLogLevel => {
                let level = text.parse().map_err(Status::invalid_argument)?;
                control
                    .set_log_level(&level)
                    .map_err(|error| Status::internal(error.to_string()))?;
                tracing::info!(%level, "changed the log level");
            }
            Method::Reload => return reload(control).await,
            Method::Look(at) => {
                let found = control.look(at).await;
                return found.map_err(|error| Status::internal(error.to_string()));
            }
            Method::Profile => {
                let seconds = text.parse().map_err(|_| {
                    Status::invalid_argument("the duration is not a number of seconds")
                })?;
                let recorded = control.profile(seconds).await;
                return recorded.map_err(|error| Status::failed_precondition(format!("{error:#}")));
            }
        }
        Ok(control.log_level().to_string())
    }
}

/// Reloads the configuration and reports to both the log and the caller.
async fn reload(control: Control) -> Result<String, Status> {
    match control.reload().await {
        Ok(changes) => Ok(describe(&changes)),
        Err(error) => Err(Status::invalid_argument(format!(
            "keeping the old configuration: {error:#}"
        ))),
    }
}

/// Describes the result of a reload for people.
pub(crate) fn describe(Changes { applied, pending }: &Changes) -> String {
    match (applied.is_empty(), pending.is_empty()) {
        (true, true) => "nothing changed".to_owned(),
        (false, true) => format!("applied {}", applied.join(", ")),
        (true, false) => format!("a restart is needed for {}", pending.join(", ")),
        (false, false) => {
            format!(
                "applied {}; a restart is needed for {}",
                applied.join(", "),
                pending.join(", ")
            )
        }
    }
}

impl NamedService for Admin {
    const NAME: &'static str = SERVICE;
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Service<Request<Body>> for Admin {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let admin = self.clone();
        Box::pin(async move {
            let name = request.uri().path().rsplit('/').next().unwrap_or_default();
            let method = match name {
                "GetLogLevel" => Method::GetLogLevel,
                "SetLogLevel" => Method::SetLogLevel,
                "Reload" => Method::Reload,
                "Tasks" => Method::Look(Look::Tasks),
                "Memory" => Method::Look(Look::Memory),
                "Profile" => Method::Profile,
                other => return Ok(orlop_cri_api::server::unimplemented(other).into_http()),
            };
            let mut grpc = Grpc::new(ProstCodec::<String, String>::default());
            Ok(grpc.unary(Handler { admin, method }, request).await)
        })
    }
}

struct Handler {
    admin: Admin,
    method: Method,
}

impl UnaryService<String> for Handler {
    type Response = String;
    type Future = BoxFuture<Result<tonic::Response<String>, Status>>;

    fn call(&mut self, request: tonic::Request<String>) -> Self::Future {
        let answer = self.admin.clone().answer(self.method, request.into_inner());
        Box::pin(async move { answer.await.map(tonic::Response::new) })
    }
}
