//! `ResolveImage`: returns the full names that a name stands for, and the registry hosts that a pull contacts.

use orlop_cri_api::images::{AskedHost, ResolveImageRequest, ResolveImageResponse, ResolvedName};
use orlop_image_store::{Error as ImageError, Explained, ExplainedName, Rule};

use crate::engine::Engine;
use crate::error::{Error, Result, chain};

/// Handles the `ResolveImage` call.
pub async fn call(
    Engine(node): &Engine,
    request: ResolveImageRequest,
) -> Result<ResolveImageResponse> {
    if request.image.is_empty() {
        return Err(Error::invalid("image", "is empty").into());
    }
    let explained = node.images.explain(&request.image, &request.namespace);
    match explained.await {
        Ok(explained) => Ok(answer(explained)),
        Err(refused @ ImageError::ShortName { .. }) => Ok(ResolveImageResponse {
            refusal: chain(&refused),
            ..ResolveImageResponse::default()
        }),
        Err(source) => Err(Error::Image {
            doing: format!("resolving {:?}", request.image),
            source,
        }
        .into()),
    }
}

fn answer(explained: Explained) -> ResolveImageResponse {
    let (rule, place) = match explained.rule {
        Rule::Full => ("full name with a registry", None),
        Rule::DockerHub => (
            "short name, from Docker Hub because images.registries_conf is not set",
            None,
        ),
        Rule::Alias(place) => ("alias", Some(place)),
        Rule::Search(place) => (
            "short name, searched for in the configured registries",
            Some(place),
        ),
    };
    ResolveImageResponse {
        rule: rule.to_owned(),
        place: place.map(|place| place.to_string()).unwrap_or_default(),
        names: explained.names.into_iter().map(name).collect(),
        refusal: String::new(),
    }
}

fn name(name: ExplainedName) -> ResolvedName {
    ResolvedName {
        name: name.name.to_string(),
        hosts: name.hosts.into_iter().map(host).collect(),
        refusal: name.refusal.unwrap_or_default(),
    }
}

fn host(host: orlop_image_store::AskedHost) -> AskedHost {
    AskedHost {
        url: host.url,
        mirror: host.is_mirror,
        asked: host.not_asked.is_none(),
        not_asked: host.not_asked.unwrap_or_default().to_owned(),
        tags: host.tags,
        content: host.content,
        skip_verify: host.skip_verify,
        fallback: host.is_fallback,
        source: host.source.unwrap_or_default(),
        settings: host.settings.unwrap_or_default(),
        credentials: host.credentials.unwrap_or_default(),
    }
}
