//! `JudgeImage`: whether and why the signature policy allows an image.

use orlop_cri_api::images::{JudgeImageRequest, JudgeImageResponse, JudgedRequirement};
use orlop_image_store::{ForeignImages, Verdict};

use crate::error::{Error, Result};
use crate::policy;
use crate::shim::Shim;

pub(crate) async fn call(shim: &Shim, request: JudgeImageRequest) -> Result<JudgeImageResponse> {
    if request.image.is_empty() {
        return Err(Error::invalid("image", "is empty").into());
    }
    let verdict = match &shim.policies {
        Some(policies) => judge(shim, policies, &request).await?,
        None => None,
    };
    Ok(verdict.map_or_else(unguarded, answer))
}

async fn judge(
    shim: &Shim,
    policies: &ForeignImages,
    request: &JudgeImageRequest,
) -> Result<Option<Verdict>> {
    let JudgeImageRequest {
        image, namespace, ..
    } = request;
    let stored = if request.remote {
        None
    } else {
        match policy::find(&shim.docker, Some(policies), image).await {
            Ok(found) => Some(policy::of_engine(&found)?),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        }
    };
    let judged = if let Some(stored) = stored {
        policies.judge(stored, image, namespace).await
    } else {
        let info = shim.info.get().await?;
        let request = policy::request(image, namespace);
        policies.judge_pull(request, &policy::platform(&info)).await
    };
    Ok(judged.map_err(Error::image(format!(
        "checking image {image:?} against the policy"
    )))?)
}

/// Returns the response for a node without a policy.
fn unguarded() -> JudgeImageResponse {
    JudgeImageResponse {
        allowed: true,
        ..JudgeImageResponse::default()
    }
}

fn answer(verdict: Verdict) -> JudgeImageResponse {
    let allowed = verdict.is_allowed();
    let name = verdict.name.map(|name| name.to_string());
    let requirements = verdict.requirements.into_iter();
    JudgeImageResponse {
        allowed,
        policy: verdict.policy.display().to_string(),
        place: verdict.place,
        name: name.unwrap_or_default(),
        requirements: requirements
            .map(|one| JudgedRequirement {
                kind: one.kind.to_owned(),
                fulfilled: one.fulfilled,
                reason: one.reason,
            })
            .collect(),
    }
}
