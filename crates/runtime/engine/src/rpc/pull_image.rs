//! `PullImage`: pulls an image from a registry. The pull continues for a while if the client disconnects; the next call
//! with the same parameters joins it.

use std::sync::Arc;
use std::time::Instant;

use orlop_cri_api::v1::{AuthConfig, PullImageRequest, PullImageResponse};
use orlop_image_store::{Credentials, PolicyFor, PullRequest, Wait};
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::image::may_be_lazy;
use crate::timeline::{Origin, Outcome};

/// Handles the `PullImage` call.
pub async fn call(Engine(node): &Engine, request: PullImageRequest) -> Result<PullImageResponse> {
    let image = request.image.unwrap_or_default();
    let name = image.image;
    if name.is_empty() {
        return Err(Error::invalid("image.image", "is empty").into());
    }
    let pod = request.sandbox_config.unwrap_or_default();
    let wait = if may_be_lazy("sandbox_config", &pod)? {
        Wait::ForNothing
    } else {
        Wait::ForAll
    };
    let pod = pod.metadata;
    let handler = match &pod {
        // Kubelets send the handler only with the feature RuntimeClassInImageCriApi, but the pod may be known.
        Some(pod) if image.runtime_handler.is_empty() => node.pods.runtime_of(pod),
        _ => image.runtime_handler,
    };
    let pull = PullRequest {
        reference: name.clone(),
        auth: request.auth.map(credentials),
        policy: PolicyFor::Namespace(pod.unwrap_or_default().namespace),
        handler: node.runtimes.of_guests(&handler),
        wait,
    };
    let (work, _waiter) = node.pulls.begin(&name);
    let (here, left) = oneshot::channel::<()>();
    let (node_too, origin) = (Arc::clone(node), Origin::current());
    let pulling = async move {
        let begin = Instant::now();
        let trace = node_too.traces.pull(&name);
        let call = trace.begin("PullImage", "", origin);
        let images = &node_too.images;
        let (pulled, steps) = images.pull_in_steps(pull, async { drop(left.await) }).await;
        for step in &steps {
            // A step that was canceled when another failed ends now. A step of a pull that this call joined may have
            // started, or even ended, earlier.
            let end = step.end.unwrap_or_else(Instant::now);
            let start = step.start.max(begin);
            let outcome = if step.failed {
                Outcome::Failed
            } else {
                Outcome::Done
            };
            if end > start {
                call.note(step.name, start, end - start, outcome);
            }
        }
        call.end(&pulled);
        let bytes = pulled.as_ref().map_or(0, |image| image.size);
        let metrics = &node_too.metrics;
        metrics
            .timeline
            .pulled(Outcome::of(&pulled), begin.elapsed(), bytes);
        let pulled = pulled.map_err(|source| {
            // Most errors contain the image name already, and clients prepend it, too.
            let doing = if source.to_string().contains(&name) {
                "the pull failed".to_owned()
            } else {
                format!("pulling image {name:?}")
            };
            Error::Image { doing, source }
        });
        work.end(&pulled);
        Ok(pulled?)
    };
    let image = node.finish(pulling).await?;
    // Held until here: if the client disconnects, the call is dropped earlier.
    drop(here);
    Ok(PullImageResponse {
        image_ref: image.id.to_string(),
    })
}

fn credentials(auth: AuthConfig) -> Credentials {
    Credentials {
        username: auth.username,
        password: auth.password,
        auth: auth.auth,
        server_address: auth.server_address,
        identity_token: auth.identity_token,
        registry_token: auth.registry_token,
    }
}
