//! Pull of exactly the image that the policy allows.

use std::collections::HashSet;

use orlop_credentials::{host_of, same_registry};
use orlop_cri_api::v1::AuthConfig;
use orlop_image_store::{
    Credentials, Digest, Examined, ForeignIds, ForeignImages, Leave, OnItsWay, Platform, PolicyFor,
    PullRequest, Reference, Target,
};

use super::find::of_engine;
use crate::docker::types::Info;
use crate::docker::{Docker, RegistryAuth};
use crate::engine_info::EngineInfo;
use crate::error::{Error, Result, chain};
use crate::pull::{Pulled, Puller, parted};

/// Checks whether an image may be pulled, and by which digest.
pub(crate) async fn examine(
    engine: &EngineInfo,
    policies: &ForeignImages,
    image: &str,
    auth: Option<AuthConfig>,
    namespace: &str,
) -> Result<Leave> {
    let info = engine.get().await?;
    let request = PullRequest {
        auth: auth.map(presented),
        ..request(image, namespace)
    };
    let leave = policies.examine(request, &platform(&info)).await;
    Ok(leave.map_err(Error::image(format!("pulling image {image:?}")))?)
}

/// Builds the pull request of an image for the pods of a namespace.
pub(crate) fn request(image: &str, namespace: &str) -> PullRequest {
    PullRequest {
        reference: image.to_owned(),
        policy: PolicyFor::Namespace(namespace.to_owned()),
        ..PullRequest::default()
    }
}

/// Returns the platform that the engine selects from an index.
pub(crate) fn platform(info: &Info) -> Platform {
    let architecture = match info.architecture.as_str() {
        "armv7l" => "armhf",
        "armv6l" => "armel",
        other => other,
    };
    Platform::new("linux", architecture, "")
}

/// Returns what the ids of the engine's images are digests of.
fn ids(info: &Info) -> ForeignIds {
    if info.has_containerd_images() {
        ForeignIds::Manifests
    } else {
        ForeignIds::Configurations
    }
}

/// Makes the engine pull the allowed image and tag it with its full name.
pub(crate) async fn fetch(
    puller: &Puller,
    engine: &EngineInfo,
    policies: &ForeignImages,
    (image, leave): (&str, Leave),
    auth: Option<RegistryAuth>,
) -> Result<Pulled> {
    let examined = match leave {
        Leave::AsNamed => return puller.pull(image, auth).await,
        Leave::Of(examined) => examined,
    };
    let auth = auth.filter(|auth| are_for(auth, image, &examined.name));
    let failed = || Error::image(format!("pulling image {image:?}"));
    let info = engine.get().await?;
    let docker = puller.docker();
    let mut bytes = 0;
    let mut other = None;
    for target in examined.targets(ids(&info)) {
        make_room(docker, policies, target.id).await?;
        let on_its_way = policies.begin(&examined, target.id).await;
        let on_its_way = on_its_way.map_err(failed())?;
        let found = match bring(puller, &examined, target, auth.clone()).await {
            Ok(found) => found,
            Err(error) => {
                give_up(docker, on_its_way, target).await;
                return Err(error);
            }
        };
        bytes += found.bytes;
        if found.id != target.id.to_string() {
            give_up(docker, on_its_way, target).await;
            other = Some((found.id, target.id));
            continue;
        }
        let there = docker.image(&found.id).await;
        let there = there.map_err(Error::engine(format!(
            "inspecting the pulled image {image:?}"
        )))?;
        let arrived = on_its_way.arrived(of_engine(&there)?.names).await;
        arrived.map_err(failed())?;
        call_it(docker, &examined.name, &found.id).await?;
        return Ok(Pulled {
            id: found.id,
            bytes,
        });
    }
    let (id, wanted) =
        other.ok_or_else(|| Error::Internal("the image has no manifest to pull".into()))?;
    let error = policies.brought_another(&examined, &id, wanted);
    Err(failed()(error).into())
}

/// Pulls the image with a digest, unless the engine has it.
async fn bring(
    puller: &Puller,
    examined: &Examined,
    target: Target,
    auth: Option<RegistryAuth>,
) -> Result<Pulled> {
    let repository = examined.name.repository().to_string();
    let by_digest = format!("{repository}@{}", target.digest);
    let was_there = match puller.docker().image(&by_digest).await {
        Ok(found) if found.id == target.id.to_string() => {
            return Ok(Pulled {
                id: found.id,
                bytes: 0,
            });
        }
        Ok(_) => true,
        Err(error) if error.is_not_found() => false,
        Err(error) => {
            return Err(Error::engine(format!("looking for image {by_digest:?}"))(error).into());
        }
    };
    let pulled = puller.pull(&by_digest, auth).await?;
    if pulled.id != target.id.to_string() && !was_there {
        // The engine selected another image from the index, which has not been checked.
        if let Err(error) = puller.docker().remove_image(&by_digest).await {
            tracing::warn!(image = by_digest, %error, "cannot remove an unverified image from the engine");
        }
    }
    Ok(pulled)
}

/// Removes the record of an image whose pull failed.
async fn give_up(docker: &Docker, on_its_way: OnItsWay, target: Target) {
    let id = target.id.to_string();
    match docker.image(&id).await {
        Err(error) if error.is_not_found() => {}
        // The image may have been pulled nevertheless.
        Ok(_) | Err(_) => return,
    }
    if let Err(error) = on_its_way.failed().await {
        tracing::warn!(image = id, error = %chain(&error), "cannot remove the signature record of an image");
    }
}

/// Tags an image with the full name that it was resolved to. The engine would resolve a short name to Docker Hub.
async fn call_it(docker: &Docker, name: &Reference, id: &str) -> Result<()> {
    let name = name.to_string();
    if name.contains('@') {
        // The pull has created the name.
        return Ok(());
    }
    let (repository, tag) = parted(&name)?;
    let tagged = docker.tag_image(id, repository, tag).await;
    tagged.map_err(Error::engine(format!("tagging image {id} as {name:?}")))?;
    Ok(())
}

/// Removes records of images that the engine no longer has, if the record store is full.
async fn make_room(docker: &Docker, policies: &ForeignImages, image: Digest) -> Result<()> {
    let failed = || Error::image("cleaning up the signature records");
    let has_room = async || -> Result<bool> {
        let knows = policies.knows(image).await.map_err(failed())?;
        Ok(knows || !policies.are_full().await.map_err(failed())?)
    };
    if has_room().await? {
        return Ok(());
    }
    let sweep = policies.sweep();
    let listed = docker.list_images().await;
    let listed = listed.map_err(Error::engine("listing images"))?;
    let ids: HashSet<_> = listed.iter().filter_map(|it| it.id.parse().ok()).collect();
    sweep.retain(ids).await.map_err(failed())?;
    if has_room().await? {
        return Ok(());
    }
    let problem = "the store of signature records is full; remove unused images";
    Err(Error::Exhausted(problem.to_owned()).into())
}

/// Converts credentials for the daemon's own registry client.
fn presented(auth: AuthConfig) -> Credentials {
    Credentials {
        username: auth.username,
        password: auth.password,
        auth: auth.auth,
        server_address: auth.server_address,
        identity_token: auth.identity_token,
        registry_token: auth.registry_token,
    }
}

/// Whether credentials for the requested name may be sent to the registry of the resolved name. A short name may be
/// tried at several registries that the user did not name.
fn are_for(auth: &RegistryAuth, asked: &str, found: &Reference) -> bool {
    let domain = found.repository().domain();
    let asked = asked.parse::<Reference>();
    if asked.is_ok_and(|asked| asked.repository().domain() == domain) {
        return true;
    }
    !auth.serveraddress.is_empty() && same_registry(&host_of(&auth.serveraddress), domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_go_to_the_registry_that_they_came_for() {
        let auth = |server: &str| RegistryAuth {
            username: "u".into(),
            serveraddress: server.into(),
            ..RegistryAuth::default()
        };
        let hub: Reference = "busybox".parse().unwrap();
        let other: Reference = "a.example/busybox".parse().unwrap();
        assert!(are_for(&auth(""), "busybox", &hub));
        assert!(!are_for(&auth(""), "busybox", &other));
        assert!(are_for(&auth("https://a.example/v2/"), "busybox", &other));
        assert!(!are_for(&auth("https://b.example"), "busybox", &other));
        assert!(are_for(&auth(""), "a.example/busybox:1", &other));
    }

    #[test]
    fn the_engine_tells_for_which_machine_and_by_what_ids() {
        let info = |text: &str| serde_json::from_str::<Info>(text).unwrap();
        let own =
            info(r#"{"Architecture":"x86_64","DriverStatus":[["Backing Filesystem","extfs"]]}"#);
        assert_eq!(platform(&own).to_string(), "linux/amd64");
        assert_eq!(ids(&own), ForeignIds::Configurations);
        let of_containerd = info(
            r#"{"Architecture":"aarch64","DriverStatus":[["driver-type","io.containerd.snapshotter.v1"]]}"#,
        );
        assert_eq!(platform(&of_containerd).to_string(), "linux/arm64");
        assert_eq!(ids(&of_containerd), ForeignIds::Manifests);
        let arm = info(r#"{"Architecture":"armv7l","DriverStatus":null}"#);
        assert_eq!(platform(&arm).to_string(), "linux/arm/v7");
        assert_eq!(ids(&arm), ForeignIds::Configurations);
    }
}
