//! `PullImage`: pulls an image through the engine.

use std::time::Instant;

use orlop_cri_api::v1::{PullImageRequest, PullImageResponse};
use orlop_cri_server::timeline::{Origin, Outcome};

use crate::credentials;
use crate::error::{Error, Result};
use crate::policy;
use crate::shim::Shim;

pub(crate) async fn call(shim: &Shim, request: PullImageRequest) -> Result<PullImageResponse> {
    let name = request.image.map(|image| image.image).unwrap_or_default();
    if name.is_empty() {
        return Err(Error::invalid("image.image", "is empty; specify an image").into());
    }
    let pod = request.sandbox_config.and_then(|pod| pod.metadata);
    let namespace = pod.unwrap_or_default().namespace;
    let given = request.auth.clone();
    let auth = request.auth.and_then(credentials::of_request);
    let begin = Instant::now();
    let trace = shim.traces.pull(&name);
    let call = trace.begin("PullImage", "", Origin::current());
    let pulled = match &shim.policies {
        None => trace.step("pull", "", shim.puller.pull(&name, auth)).await,
        Some(policies) => {
            let examining = policy::examine(&shim.info, policies, &name, given, &namespace);
            match trace.step("signatures", "", Box::pin(examining)).await {
                Ok(leave) => {
                    let fetching =
                        policy::fetch(&shim.puller, &shim.info, policies, (&name, leave), auth);
                    trace.step("pull", "", fetching).await
                }
                Err(error) => Err(error),
            }
        }
    };
    call.end(&pulled);
    let bytes = pulled.as_ref().map_or(0, |pulled| pulled.bytes);
    shim.metrics
        .pulled(Outcome::of(&pulled), begin.elapsed(), bytes);
    Ok(PullImageResponse {
        image_ref: pulled?.id,
    })
}
