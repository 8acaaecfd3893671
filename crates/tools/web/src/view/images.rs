//! Images with their sizes, users, shared layers, and the data that garbage collection would remove.

use std::collections::{BTreeSet, HashMap};

use orlop_cri_api::client::Connection;
use orlop_cri_api::images::CollectGarbageRequest;
use orlop_cri_api::v1::{Container, FilesystemUsage, Image, ImageSpec, ImageStatusResponse};
use serde_json::{Value, json};

use super::info::Info;
use crate::asked::{AskError, Told, own};
use crate::bounded::{MOST, MOST_PODS, cut, texts};

/// Maximum number of images whose layers are queried.
const MOST_ASKED: usize = 1000;

/// Returns all images, and the disk that stores them.
pub(crate) async fn images(cri: &Connection) -> Told {
    let client = cri.images();
    let mut images = client.list_images(None).await?;
    images.sort_by(|a, b| b.size.cmp(&a.size).then(a.id.cmp(&b.id)));
    images.truncate(MOST_PODS);
    let disk = match client.image_fs_info().await.map_err(AskError::from) {
        Ok(info) => info.image_filesystems,
        Err(error) if error.is_gone() => return Err(error),
        Err(_) => Vec::new(),
    };
    let disk = disk.into_iter().take(MOST).collect();
    let disk = orlop_pool::blocking(move || filesystems(disk)).await;
    let containers = cri.runtime().list_containers(None).await?;
    let users = users(&images, &containers);
    let mut told = Vec::with_capacity(images.len());
    for (place, image) in images.iter().enumerate() {
        let layers = if place < MOST_ASKED {
            let spec = ImageSpec {
                image: image.id.clone(),
                ..ImageSpec::default()
            };
            match client
                .image_status(spec, true)
                .await
                .map_err(AskError::from)
            {
                Ok(answer) => layers(&answer),
                Err(error) if error.is_gone() => return Err(error),
                Err(_) => Value::Null,
            }
        } else {
            Value::Null
        };
        told.push(image_json(image, &users[place], layers));
    }
    Ok(json!({
        "filesystems": disk.unwrap_or_default(),
        "images": told,
        "garbage": garbage(cri, &images, &users).await?,
    }))
}

fn filesystems(disk: Vec<FilesystemUsage>) -> Value {
    let told = disk.iter().map(|one| {
        let place = one.fs_id.clone().unwrap_or_default().mountpoint;
        json!({
            "mountpoint": cut(&place),
            "used": one.used_bytes.as_ref().map(|value| value.value),
            "inodes": one.inodes_used.as_ref().map(|value| value.value),
            "capacity": crate::live::capacity(&place),
        })
    });
    told.collect()
}

/// Returns the pods of each image.
fn users(images: &[Image], containers: &[Container]) -> Vec<BTreeSet<String>> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (place, image) in images.iter().enumerate() {
        let names = image.repo_tags.iter().chain(&image.repo_digests);
        for name in names.chain([&image.id]) {
            places.insert(name, place);
        }
    }
    let mut users = vec![BTreeSet::new(); images.len()];
    for container in containers {
        let named = container.image.as_ref().map(|image| image.image.as_str());
        let names = [
            Some(container.image_id.as_str()),
            Some(container.image_ref.as_str()),
            named,
        ];
        let place = names
            .into_iter()
            .flatten()
            .find_map(|name| places.get(name));
        if let Some(place) = place {
            users[*place].insert(container.pod_sandbox_id.clone());
        }
    }
    users
}

fn image_json(image: &Image, users: &BTreeSet<String>, layers: Value) -> Value {
    let uid = image.uid.as_ref().map(|uid| uid.value.to_string());
    let name = (!image.username.is_empty()).then(|| cut(&image.username).to_owned());
    json!({
        "id": image.id,
        "tags": texts(&image.repo_tags),
        "digests": texts(&image.repo_digests),
        "size": image.size,
        "pinned": image.pinned,
        "user": name.or(uid),
        "used_by": users.iter().take(MOST).collect::<Vec<_>>(),
        "layers": layers,
    })
}

/// Returns the layers by diff ID, in order, with their sizes if the runtime reports them.
fn layers(answer: &ImageStatusResponse) -> Value {
    let info = Info::of(&answer.info);
    let Some(digests) = info.texts("/imageSpec/rootfs/diff_ids") else {
        return Value::Null;
    };
    // orlop's field, top layer first.
    let sizes = info.at("/layerSizes").as_array();
    let sizes = sizes.filter(|sizes| sizes.len() == digests.len());
    let layers = digests.iter().enumerate().map(|(place, digest)| {
        let size = sizes.and_then(|sizes| sizes.iter().rev().nth(place)?.as_u64());
        json!({ "digest": digest, "size": size })
    });
    layers.collect()
}

/// Returns what garbage collection would remove, if the endpoint is orlop.
async fn garbage(
    cri: &Connection,
    images: &[Image],
    users: &[BTreeSet<String>],
) -> Result<Option<Value>, AskError> {
    let request = CollectGarbageRequest {
        dry_run: true,
        unused_images: true,
    };
    let mut client = cri.orlop_images();
    let answer = match own(client.collect_garbage(request)).await {
        Ok(answer) => answer,
        Err(error) if error.is_gone() => return Err(error),
        Err(_) => return Ok(None),
    };
    let removed: BTreeSet<&str> = answer.removed.iter().map(String::as_str).collect();
    let goes = |(image, users): &(&Image, &BTreeSet<String>)| {
        let its = image
            .repo_digests
            .iter()
            .filter_map(|name| Some(name.split_once('@')?.1));
        let is_named = its
            .chain([image.id.as_str()])
            .any(|one| removed.contains(one));
        is_named || (users.is_empty() && !image.pinned)
    };
    let ids = images.iter().zip(users).filter(goes);
    let ids: Vec<&str> = ids.map(|(image, _)| image.id.as_str()).collect();
    Ok(Some(json!({ "bytes": answer.freed_bytes, "images": ids })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_used_by_the_pods_of_their_containers() {
        let image = |id: &str, tag: &str| Image {
            id: id.into(),
            repo_tags: vec![tag.into()],
            ..Image::default()
        };
        let container = |pod: &str, image_ref: &str, image_id: &str| Container {
            pod_sandbox_id: pod.into(),
            image_ref: image_ref.into(),
            image_id: image_id.into(),
            ..Container::default()
        };
        let images = [image("sha256:a", "one:1"), image("sha256:b", "two:1")];
        let containers = [
            container("p", "one:1", ""),
            container("q", "x", "sha256:a"),
            container("q", "sha256:a", ""),
            container("r", "gone", ""),
        ];
        let users = users(&images, &containers);
        assert_eq!(users[0], BTreeSet::from(["p".to_owned(), "q".to_owned()]));
        assert!(users[1].is_empty());
    }

    #[test]
    fn layers_are_told_by_what_they_hold() {
        let info = json!({ "imageSpec": { "rootfs": { "diff_ids": ["sha256:a", "sha256:b"] } }, "layerSizes": [7, 5] });
        let answer = ImageStatusResponse {
            info: HashMap::from([("info".to_owned(), info.to_string())]),
            ..Default::default()
        };
        let expected =
            json!([{ "digest": "sha256:a", "size": 5 }, { "digest": "sha256:b", "size": 7 }]);
        assert_eq!(layers(&answer), expected);
        assert_eq!(layers(&ImageStatusResponse::default()), Value::Null);
    }
}
