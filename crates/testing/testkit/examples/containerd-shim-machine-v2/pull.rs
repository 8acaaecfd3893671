//! How a guest gets its image.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;

/// Pulls an image by its digest from a registry of this machine, as guests do, all by itself.
pub(crate) fn pull(image: &str, root: &Path) -> io::Result<()> {
    let other = |what: &str| io::Error::other(what.to_owned());
    let (name, digest) = image.split_once('@').ok_or_else(|| other("no digest"))?;
    let (host, repository) = name.split_once('/').ok_or_else(|| other("no registry"))?;
    let manifest = get(host, &format!("/v2/{repository}/manifests/{digest}"))?;
    let manifest: Value = serde_json::from_slice(&manifest)?;
    fs::create_dir_all(root)?;
    for layer in manifest["layers"]
        .as_array()
        .ok_or_else(|| other("no layers"))?
    {
        let digest = layer["digest"].as_str().unwrap_or_default();
        let blob = get(host, &format!("/v2/{repository}/blobs/{digest}"))?;
        tar::Archive::new(flate2::read::GzDecoder::new(&*blob)).unpack(root)?;
    }
    Ok(())
}

fn get(host: &str, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: {host}\r\n\
         Accept: application/vnd.oci.image.manifest.v1+json\r\n\
         Accept: application/vnd.docker.distribution.manifest.v2+json\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let end = end.ok_or_else(|| io::Error::other("no head"))?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    if !head.contains(" 200 ") {
        return Err(io::Error::other(head));
    }
    Ok(answer.split_off(end + 4))
}
