//! Pushes images into a registry.

use std::net::SocketAddr;

use anyhow::ensure;
use http_body_util::Full;
use hyper::{Method, Request, StatusCode, header};

use crate::http::{self, Answer};
use crate::image::{Blob, BuiltImage, ImageBuilder};
use crate::registry::{Login, Registry};

impl Registry {
    /// Starts an open registry with busybox, and returns the image's name.
    pub async fn with_busybox() -> (Self, String) {
        let registry = Self::start();
        let image = ImageBuilder::busybox().build();
        let name = registry.push(&image, "busybox:1").await;
        (registry, name)
    }

    /// Pushes an image as `repository:tag` and returns the reference to pull it by.
    pub async fn push(&self, image: &BuiltImage, name: &str) -> String {
        let (repository, tag) = name.rsplit_once(':').unwrap_or((name, "latest"));
        let target = Target {
            address: self.address(),
            repository,
            login: self.login(),
        };
        target
            .push(image, tag)
            .await
            .unwrap_or_else(|e| panic!("pushing {name} to {}: {e:#}", self.host()));
        self.reference(name)
    }
}

/// Size of an upload part.
const PART: usize = 16 << 20;

struct Target<'a> {
    address: SocketAddr,
    repository: &'a str,
    login: Option<&'a Login>,
}

impl Target<'_> {
    async fn push(&self, image: &BuiltImage, tag: &str) -> anyhow::Result<()> {
        for artifact in &image.beside {
            Box::pin(self.push(artifact, artifact.digest())).await?;
        }
        for blob in image.blobs() {
            self.push_blob(blob).await?;
        }
        for manifest in &image.manifests {
            self.push_manifest(manifest, &manifest.digest).await?;
        }
        self.push_manifest(&image.top, tag).await
    }

    async fn push_blob(&self, blob: &Blob) -> anyhow::Result<()> {
        let known = format!("/v2/{}/blobs/{}", self.repository, blob.digest);
        if self
            .ask(Method::HEAD, &known, None, Vec::new())
            .await?
            .status
            == StatusCode::OK
        {
            return Ok(());
        }
        let start = format!("/v2/{}/blobs/uploads/", self.repository);
        let answer = self.ask(Method::POST, &start, None, Vec::new()).await?;
        ensure!(
            answer.status == StatusCode::ACCEPTED,
            "starting an upload: {answer:?}"
        );
        let mut path = location(&answer)?;
        let octets = Some("application/octet-stream");
        // In parts, so that a large blob is not in memory twice.
        let (parts, last) = blob
            .bytes
            .split_at(blob.bytes.len().saturating_sub(1) / PART * PART);
        for part in parts.chunks(PART) {
            let answer = self
                .ask(Method::PATCH, &path, octets, part.to_vec())
                .await?;
            ensure!(
                answer.status == StatusCode::ACCEPTED,
                "uploading a part of {}: {answer:?}",
                blob.digest
            );
            path = location(&answer)?;
        }
        let joint = if path.contains('?') { '&' } else { '?' };
        let finish = format!("{path}{joint}digest={}", blob.digest);
        let answer = self
            .ask(Method::PUT, &finish, octets, last.to_vec())
            .await?;
        ensure!(
            answer.status == StatusCode::CREATED,
            "uploading {}: {answer:?}",
            blob.digest
        );
        Ok(())
    }

    async fn push_manifest(&self, manifest: &Blob, reference: &str) -> anyhow::Result<()> {
        let path = format!("/v2/{}/manifests/{reference}", self.repository);
        let kind = Some(manifest.media_type.as_str());
        let answer = self
            .ask(Method::PUT, &path, kind, manifest.bytes.clone())
            .await?;
        ensure!(
            answer.status == StatusCode::CREATED,
            "naming {reference}: {answer:?}"
        );
        Ok(())
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Vec<u8>,
    ) -> anyhow::Result<Answer> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(kind) = content_type {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        if let Some(login) = self.login {
            request = request.header(header::AUTHORIZATION, login.basic());
        }
        http::send(self.address, request.body(Full::from(body))?).await
    }
}

/// Returns the path to continue an upload at. The registry returns an absolute URL.
fn location(answer: &Answer) -> anyhow::Result<String> {
    let location = answer.headers[header::LOCATION].to_str()?;
    Ok(match location.split_once("://") {
        Some((_, rest)) => rest[rest.find('/').unwrap_or(rest.len())..].to_owned(),
        None => location.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Chunked, Compression, Format, Layer};
    use crate::{machine, skip_unless};

    async fn fetch(registry: &Registry, path: &str) -> Answer {
        let accept = "application/vnd.oci.image.index.v1+json, \
             application/vnd.oci.image.manifest.v1+json, \
             application/vnd.docker.distribution.manifest.list.v2+json, \
             application/vnd.docker.distribution.manifest.v2+json";
        let request = Request::get(path)
            .header(header::ACCEPT, accept)
            .body(Full::default())
            .expect("build a request");
        http::send(registry.address(), request)
            .await
            .expect("the registry answers")
    }

    #[tokio::test]
    async fn a_large_blob_and_what_is_beside_an_image_come_back_as_pushed() {
        skip_unless!(machine::has_program("docker-registry"));
        let registry = Registry::start();
        let image = ImageBuilder::new()
            .layer(Layer::new().noise("n", 2 * PART + 1000))
            .chunked(Layer::new().noise("n", 1000), Chunked::EStargz)
            .soci(1 << 20)
            .build();
        registry.push(&image, "large:1").await;
        let [soci] = &image.beside[..] else {
            panic!("nothing is beside the image");
        };
        let path = format!("/v2/large/manifests/{}", soci.digest());
        assert!(fetch(&registry, &path).await.body == soci.top.bytes);
        for blob in image.blobs().chain(soci.blobs()) {
            let path = format!("/v2/large/blobs/{}", blob.digest);
            assert!(fetch(&registry, &path).await.body == blob.bytes);
        }
    }

    #[tokio::test]
    async fn every_kind_of_image_comes_back_as_pushed() {
        skip_unless!(machine::has_program("docker-registry"));
        let registry = Registry::start();
        for format in [Format::Oci, Format::Docker] {
            for index in [false, true] {
                let mut builder = ImageBuilder::new().format(format);
                for how in [Compression::Gzip, Compression::Zstd, Compression::Plain] {
                    builder = builder.packed(Layer::new().file("f", "x", 0o644), how);
                }
                if index {
                    builder = builder.index();
                }
                let image = builder.build();
                let name = format!("deep/{format:?}-{index}").to_lowercase();
                registry.push(&image, &format!("{name}:1")).await;
                let answer = fetch(&registry, &format!("/v2/{name}/manifests/1")).await;
                assert_eq!(answer.status, StatusCode::OK, "{name}: {answer:?}");
                assert_eq!(answer.headers["docker-content-digest"], image.digest());
                assert_eq!(answer.body, image.top.bytes);
                for blob in image.blobs() {
                    let path = format!("/v2/{name}/blobs/{}", blob.digest);
                    let answer = fetch(&registry, &path).await;
                    assert!(
                        answer.body == blob.bytes,
                        "{} changed on the way",
                        blob.digest
                    );
                }
            }
        }
    }
}
