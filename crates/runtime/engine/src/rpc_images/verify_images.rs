//! `VerifyImages`: compares stored content with its digests. A layer that several images share is read once, so all
//! answers are sent at the end.

use std::sync::Arc;

use futures_util::stream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use orlop_cri_api::images::{BrokenContent, VerifyImagesRequest, VerifyImagesResponse};
use orlop_image_store::{Digest, Image, Verified};
use tonic::Status;

use crate::batches::Answers;
use crate::engine::Engine;
use crate::error::{Error, Result, status};
use crate::image::stored;
use crate::node::Node;

/// Handles the `VerifyImages` call.
pub async fn call(
    Engine(node): &Engine,
    request: VerifyImagesRequest,
) -> Result<Answers<VerifyImagesResponse>> {
    let mut images = Vec::new();
    for name in &request.images {
        let image = stored(&node.images, name).await?;
        if !images.iter().any(|other: &Image| other.id == image.id) {
            images.push(image);
        }
    }
    if request.images.is_empty() {
        images = node.images.list();
    }
    let (node, repair) = (Arc::clone(node), request.repair);
    let verified = async move {
        let work = verify(Arc::clone(&node), images, repair);
        let answers = if repair {
            // Must not be interrupted between the old layer and the new.
            node.finish(work).await
        } else {
            work.await
        };
        let answers = answers.map_err(|error| status(&error))?;
        Ok::<_, Status>(stream::iter(answers.into_iter().map(Ok)))
    };
    Ok(stream::once(verified).try_flatten().boxed())
}

async fn verify(
    node: Arc<Node>,
    images: Vec<Image>,
    repair: bool,
) -> Result<Vec<VerifyImagesResponse>> {
    let ids: Vec<_> = images.iter().map(|image| image.id).collect();
    let verified = node.images.verify_images(&ids, repair).await;
    let verified = verified.map_err(|source| Error::Image {
        doing: "verifying images".into(),
        source,
    })?;
    Ok(images
        .into_iter()
        .map(|image| answer(image.id, image.repo_tags, &verified))
        .collect())
}

fn answer(id: Digest, names: Vec<String>, verified: &Verified) -> VerifyImagesResponse {
    let of_image = || {
        let broken = verified.broken.iter();
        broken.filter(|layer| layer.images.contains(&id))
    };
    let broken: Vec<_> = of_image()
        .map(|layer| BrokenContent {
            digest: layer.diff_id.to_string(),
            problem: layer.reason.clone(),
        })
        .collect();
    let unlabelled = verified.unlabelled.iter();
    let unlabelled = unlabelled.filter(|layer| layer.images.contains(&id));
    let unlabelled = unlabelled.map(|layer| BrokenContent {
        digest: layer.diff_id.to_string(),
        problem: layer.reason.clone(),
    });
    VerifyImagesResponse {
        unlabelled: unlabelled.collect(),
        id: id.to_string(),
        repaired: !broken.is_empty() && of_image().all(|layer| layer.repaired),
        names,
        broken,
    }
}

#[cfg(test)]
mod tests {
    use orlop_image_store::{BrokenLayer, UnlabelledLayer};

    use super::*;

    #[test]
    fn each_image_is_told_of_its_own_layers_and_what_lacks_a_label_is_not_broken() {
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let verified = Verified {
            broken: vec![BrokenLayer {
                diff_id: Digest::of(b"broken"),
                reason: "gone".into(),
                images: vec![one],
                repaired: true,
            }],
            unlabelled: vec![UnlabelledLayer {
                diff_id: Digest::of(b"unlabelled"),
                reason: "refused".into(),
                images: vec![other],
            }],
            ..Verified::default()
        };
        let of = |id| answer(id, Vec::new(), &verified);
        let (one, other) = (of(one), of(other));
        assert!(one.repaired && one.unlabelled.is_empty());
        assert_eq!(one.broken[0].problem, "gone");
        assert!(!other.repaired && other.broken.is_empty());
        assert_eq!(other.unlabelled[0].problem, "refused");
        assert_eq!(
            other.unlabelled[0].digest,
            Digest::of(b"unlabelled").to_string()
        );
    }
}
