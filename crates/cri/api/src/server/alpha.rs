//! The `v1alpha2` names. On the wire, `runtime.v1alpha2` has the messages that v1 had when it froze, and v1 has only
//! grown since. The same handlers serve both; only paths differ.

use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use http::{Request, Uri};
use tower::{Layer, Service};

/// A layer that maps services named `runtime.v1alpha2.*` to `runtime.v1.*`.
#[derive(Debug, Clone, Copy, Default)]
pub struct V1Alpha2Layer;

impl<S> Layer<S> for V1Alpha2Layer {
    type Service = V1Alpha2<S>;

    fn layer(&self, inner: S) -> Self::Service {
        V1Alpha2 { inner }
    }
}

/// The service created by [`V1Alpha2Layer`].
#[derive(Debug, Clone)]
pub struct V1Alpha2<S> {
    inner: S,
}

impl<S, B> Service<Request<B>> for V1Alpha2<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let Some(uri) = renamed(request.uri()) {
            *request.uri_mut() = uri;
        }
        self.inner.call(request)
    }
}

fn renamed(uri: &Uri) -> Option<Uri> {
    let rest = uri.path().strip_prefix("/runtime.v1alpha2.")?;
    let path = PathAndQuery::try_from(format!("/runtime.v1.{rest}")).ok()?;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_old_names_change() {
        let path = |uri: &str| renamed(&uri.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(
            path("http://localhost/runtime.v1alpha2.RuntimeService/Version").as_deref(),
            Some("http://localhost/runtime.v1.RuntimeService/Version")
        );
        assert_eq!(
            path("/runtime.v1alpha2.ImageService/PullImage").as_deref(),
            Some("/runtime.v1.ImageService/PullImage")
        );
        assert_eq!(path("/runtime.v1.RuntimeService/Version"), None);
        assert_eq!(path("/orlop.v1.Images/WatchPulls"), None);
    }
}
