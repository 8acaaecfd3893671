//! Import of images. Each is streamed to the daemon as an archive and is imported completely or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use orlop_cli::{import_archive, say};
use orlop_cri_api::Endpoint;
use orlop_cri_api::client::{ClientOptions, Connection};
use orlop_migrate::{StoredImage, containerd_images, docker_images, storage_images};

use super::from::From;

/// Time limit of one import.
const PATIENCE: Duration = Duration::from_hours(24);

/// Imports all images. Returns whether all of them are present now.
pub(super) async fn take_over(from: From, root: &Path, socket: &Path) -> anyhow::Result<bool> {
    let (dir, shown) = (root.to_owned(), root.display());
    let read = tokio::task::spawn_blocking(move || stored(from, &dir)).await?;
    let images = read.with_context(|| format!("cannot read the images in {shown}"))?;
    let endpoint: Endpoint = format!("unix://{}", socket.display()).parse()?;
    let options = ClientOptions {
        timeout: PATIENCE,
        ..ClientOptions::default()
    };
    let connection = Connection::new(endpoint, options);
    let (mut taken, mut bytes, mut left) = (0_u64, 0_u64, 0_u64);
    for image in images {
        let what = match image.names.as_slice() {
            [] => image.id.clone(),
            names => names.join(" "),
        };
        let made = tokio::task::spawn_blocking(move || image.archive()).await?;
        let archive = match made {
            Ok(archive) => archive,
            Err(why) => {
                left += 1;
                say!("cannot import {what}: {why}");
                continue;
            }
        };
        let size = archive.bytes_of_files();
        match import_archive(&connection, move |out| archive.write_to(out)).await {
            Ok(lines) => {
                taken += 1;
                bytes = bytes.saturating_add(size);
                let mut out = orlop_cli::stdout();
                out.write_all(lines.as_bytes()).and_then(|()| out.flush())?;
            }
            Err(error) => {
                left += 1;
                say!("cannot import {what}: {error:#}");
            }
        }
    }
    say!(
        "images: {taken} imported ({} MiB), {left} failed",
        bytes >> 20
    );
    Ok(left == 0)
}

fn stored(from: From, root: &Path) -> anyhow::Result<Vec<StoredImage>> {
    Ok(match from {
        From::Containerd => match containerd_images(root, "k8s.io")? {
            Some(images) => images,
            None => bail!(
                "the containerd namespace k8s.io does not exist; check that a kubelet used this \
                 containerd"
            ),
        },
        From::Crio => storage_images(root)?,
        From::Docker => {
            let machine = PathBuf::from("/var/lib/containerd");
            let is_usual = root == Path::new("/var/lib/docker");
            docker_images(root, is_usual.then_some(machine.as_path()))?
        }
    })
}
