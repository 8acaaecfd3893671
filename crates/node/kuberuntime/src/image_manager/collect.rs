//! Removes unused images when the disk fills up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use orlop_cri_api::client::{ClientError, ImageClient, RuntimeClient};
use orlop_cri_api::v1;
use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::gc::{
    DiskUsage, ImagePolicy, ImageRecord, bytes_to_free, images_to_remove,
};

use super::PullRecords;
use crate::clock::now;
use crate::metrics::Metrics;

/// Records when images were last used, and removes unused ones when the disk fills up.
#[derive(Debug, Default)]
pub(crate) struct ImageCollector {
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    first_detected: Timestamp,
    last_used: Option<Timestamp>,
}

impl ImageCollector {
    /// Runs one round and returns the freed bytes; frees at least `at_least` bytes if possible.
    /// Images in `mounted` are in use, by any of their names.
    pub(crate) async fn collect(
        &mut self,
        (runtime, images): (&RuntimeClient, &ImageClient),
        policy: &ImagePolicy,
        at_least: Option<u64>,
        mounted: BTreeSet<String>,
        (metrics, pulls): (&Metrics, &Arc<PullRecords>),
    ) -> Result<u64, ClientError> {
        let begun = now();
        let records = self.detect(runtime, images, mounted).await?;
        let disk = disk_usage(images).await?;
        let to_free = at_least.or_else(|| bytes_to_free(policy, disk));
        let policy = match at_least {
            // Under disk pressure, the minimum age is ignored.
            Some(_) => ImagePolicy {
                min_age: std::time::Duration::ZERO,
                ..*policy
            },
            None => *policy,
        };
        let mut freed = 0;
        let mut there: BTreeSet<String> = records.iter().map(|it| it.id.clone()).collect();
        for image in images_to_remove(&records, &policy, to_free, now()) {
            let spec = v1::ImageSpec {
                image: image.id.clone(),
                ..v1::ImageSpec::default()
            };
            match images.remove_image(spec).await {
                Ok(()) => {
                    tracing::info!(
                        image = image.id,
                        size = image.size,
                        "removed an unused image"
                    );
                    let by_age = policy.max_age.is_some() && to_free.is_none();
                    metrics.collected_image(if by_age { "age" } else { "space" });
                    freed += image.size;
                    self.seen.remove(&image.id);
                    there.remove(&image.id);
                }
                Err(error) => tracing::warn!(image = image.id, %error, "cannot remove an image"),
            }
        }
        let pulls = Arc::clone(pulls);
        // A record that stays is checked again in the next round.
        let pruned = orlop_pool::blocking(move || {
            pulls.prune(&there, begun);
            pulls.count()
        });
        if let Ok((under_way, done)) = pruned.await {
            metrics.pull_records(under_way, done);
        }
        if let Some(wanted) = to_free.filter(|wanted| *wanted > freed) {
            tracing::warn!(
                wanted,
                freed,
                "cannot free enough disk space: too few images are unused"
            );
        }
        Ok(freed)
    }

    /// Records which images exist and which of them are used.
    async fn detect(
        &mut self,
        runtime: &RuntimeClient,
        images: &ImageClient,
        mut used: BTreeSet<String>,
    ) -> Result<Vec<ImageRecord>, ClientError> {
        let list = images.list_images(None).await?;
        for container in runtime.list_containers(None).await? {
            used.insert(container.image_id);
            used.insert(container.image_ref);
            used.extend(container.image.map(|spec| spec.image));
        }
        if !list.iter().any(|image| image.pinned) {
            let status = runtime.status(true).await?;
            used.extend(sandbox_image(&status.info));
        }
        let now = now();
        let mut records = Vec::new();
        let there: BTreeSet<&str> = list.iter().map(|image| image.id.as_str()).collect();
        self.seen.retain(|id, _| there.contains(id.as_str()));
        for image in &list {
            let names = image.repo_tags.iter().chain(&image.repo_digests);
            let in_use = names.chain([&image.id]).any(|name| used.contains(name));
            let seen = self.seen.entry(image.id.clone()).or_insert(Seen {
                first_detected: now,
                last_used: None,
            });
            if in_use {
                seen.last_used = Some(now);
            }
            records.push(ImageRecord {
                id: image.id.clone(),
                size: image.size,
                first_detected: seen.first_detected,
                last_used: seen.last_used,
                in_use,
                pinned: image.pinned,
            });
        }
        Ok(records)
    }
}

/// Returns the sandbox image of a runtime that reports it but does not pin it: containerd before
/// 1.7. Without this image, a node without network cannot start pods.
fn sandbox_image(info: &HashMap<String, String>) -> Option<String> {
    let config: serde_json::Value = serde_json::from_slice(info.get("config")?.as_bytes()).ok()?;
    let name = config.get("sandboxImage")?.as_str()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns the disk usage of the image file system.
async fn disk_usage(images: &ImageClient) -> Result<DiskUsage, ClientError> {
    let info = images.image_fs_info().await?;
    let point = info
        .image_filesystems
        .into_iter()
        .filter_map(|fs| fs.fs_id)
        .map(|id| id.mountpoint)
        .next()
        .unwrap_or_default();
    let stat = orlop_pool::blocking(move || rustix::fs::statvfs(point.as_str())).await;
    Ok(match stat {
        Ok(Ok(stat)) => DiskUsage {
            capacity: stat.f_blocks * stat.f_frsize,
            available: stat.f_bavail * stat.f_frsize,
        },
        // The runtime is on another machine: its disk usage is unknown, so nothing is removed.
        _ => DiskUsage {
            capacity: 0,
            available: 0,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_of_sandboxes_is_found_where_it_is_told() {
        for (config, expected) in [
            (
                r#"{"sandboxImage": "registry.k8s.io/pause:3.6", "x": 1}"#,
                Some("registry.k8s.io/pause:3.6"),
            ),
            (r#"{"sandboxImage": ""}"#, None),
            (r#"{"root": "/var/lib/orlop"}"#, None),
            ("{", None),
        ] {
            let info = HashMap::from([("config".to_owned(), config.to_owned())]);
            assert_eq!(sandbox_image(&info).as_deref(), expected, "{config}");
        }
        assert_eq!(sandbox_image(&HashMap::new()), None);
    }
}
