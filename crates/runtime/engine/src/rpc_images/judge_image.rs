//! `JudgeImage`: evaluates the signature policy for an image and explains the result.

use orlop_cri_api::images::{JudgeImageRequest, JudgeImageResponse, JudgedRequirement};
use orlop_cri_api::v1::ImageSpec;
use orlop_image_store::{PolicyFor, PullRequest, Verdict, Wait};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::image::name_asked_for;
use crate::node::Node;

/// Handles the `JudgeImage` call.
pub async fn call(Engine(node): &Engine, request: JudgeImageRequest) -> Result<JudgeImageResponse> {
    if request.image.is_empty() {
        return Err(Error::invalid("image", "is empty").into());
    }
    let verdict = judge(node, &request).await;
    let verdict = verdict.map_err(|source| Error::Image {
        doing: format!(
            "evaluating the signature policy for image {:?}",
            request.image
        ),
        source,
    })?;
    Ok(verdict.map_or_else(unguarded, answer))
}

async fn judge(
    node: &Node,
    request: &JudgeImageRequest,
) -> orlop_image_store::Result<Option<Verdict>> {
    let (images, name) = (&node.images, &request.image);
    let stored = if request.remote {
        None
    } else {
        images.find(name).await?
    };
    let Some(image) = stored else {
        let pull = PullRequest {
            reference: name.clone(),
            auth: None,
            policy: PolicyFor::Namespace(request.namespace.clone()),
            handler: String::new(),
            wait: Wait::default(),
        };
        return images.judge_pull(pull).await;
    };
    let asked = ImageSpec {
        image: name.clone(),
        ..ImageSpec::default()
    };
    let asked = name_asked_for(images, &asked, &image).await;
    images
        .judge(&image.id, asked.as_ref(), &request.namespace)
        .await
}

/// Returns the result if there is no policy.
fn unguarded() -> JudgeImageResponse {
    JudgeImageResponse {
        allowed: true,
        ..JudgeImageResponse::default()
    }
}

fn answer(verdict: Verdict) -> JudgeImageResponse {
    let requirements = verdict.requirements.iter().map(|one| JudgedRequirement {
        kind: one.kind.to_owned(),
        fulfilled: one.fulfilled,
        reason: one.reason.clone(),
    });
    JudgeImageResponse {
        allowed: verdict.is_allowed(),
        policy: verdict.policy.display().to_string(),
        place: verdict.place.clone(),
        name: verdict
            .name
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        requirements: requirements.collect(),
    }
}
