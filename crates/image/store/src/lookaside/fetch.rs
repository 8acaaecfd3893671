//! Fetches the signatures of a manifest from a signature store: files numbered from 1 until one is missing.

use std::io::ErrorKind;
use std::path::Path;

use futures_util::future::join_all;
use orlop_openpgp::MAX_MESSAGE;
use reqwest::Url;

use super::Base;
use crate::blocking::blocking;
use crate::registry::Remote;
use crate::{Digest, Error, Result};

/// Maximum number of signatures per manifest.
const MAX_SIGNATURES: usize = 64;
/// Maximum size of all of them; one has about a thousand bytes.
const MAX_BYTES: usize = 512 << 10;
/// Number of signatures in the first batch of parallel requests: one is usual, and the next request shows that it is
/// the last.
const FIRST_WAVE: usize = 2;

/// Returns the signatures of a manifest in a store, for the repository of `remote`.
pub(crate) async fn find(remote: &Remote, base: &Base, digest: &Digest) -> Result<Vec<Vec<u8>>> {
    let what = format!("the signatures of {digest}");
    let below = place(remote.repository().path(), digest);
    let found = match base {
        Base::Directory(dir) => {
            let (dir, what) = (dir.join(below), what.clone());
            blocking(move || in_directory(&what, &dir)).await?
        }
        Base::Web(base) => on_web(remote, &what, base, &below).await?,
    };
    if found.len() > MAX_SIGNATURES {
        let limit = format!("{MAX_SIGNATURES} signatures");
        return Err(Error::too_large(what, limit));
    }
    if found.iter().map(Vec::len).sum::<usize>() > MAX_BYTES {
        return Err(Error::too_large(what, format!("{MAX_BYTES} bytes")));
    }
    Ok(found)
}

/// Returns the path of a manifest's signatures in a store. Repository paths cannot contain `..`.
fn place(repository: &str, digest: &Digest) -> String {
    let digest = digest.to_string().replacen(':', "=", 1);
    format!("{repository}@{digest}")
}

/// Reads the files before the first missing one, at most one more than allowed.
fn in_directory(what: &str, dir: &Path) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for number in 1..=MAX_SIGNATURES + 1 {
        let file = dir.join(name(number));
        match orlop_fs::read_file(&file, MAX_MESSAGE as u64) {
            Ok(bytes) => found.push(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) => {
                let file = file.display();
                return Err(Error::store(format!("reading {what} from {file}"), error));
            }
        }
    }
    Ok(found)
}

/// Fetches the files from a web server, in growing batches of parallel requests.
async fn on_web(remote: &Remote, what: &str, base: &Url, below: &str) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let mut wave = FIRST_WAVE;
    while found.len() <= MAX_SIGNATURES {
        let first = found.len() + 1;
        let last = (first + wave - 1).min(MAX_SIGNATURES + 1);
        let asked = (first..=last).map(|number| {
            let mut url = base.clone();
            let path = base.path().trim_end_matches('/');
            url.set_path(&format!("{path}/{below}/{}", name(number)));
            async move { remote.lookaside(what, url, MAX_MESSAGE as u64).await }
        });
        for answer in join_all(asked).await {
            // Files after a missing one are ignored.
            match answer? {
                Some(bytes) => found.push(bytes),
                None => return Ok(found),
            }
        }
        wave *= 2;
    }
    Ok(found)
}

fn name(number: usize) -> String {
    format!("signature-{number}")
}
