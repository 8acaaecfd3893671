//! Lists the artifacts attached to a manifest, with the referrers API (OCI distribution 1.1), or by a tag if the
//! registry does not support it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use futures_util::future::{Either, ready, select};
use http::header::{ACCEPT, LINK};
use http::{HeaderMap, HeaderValue};
use reqwest::Url;
use serde::Deserialize;

use super::answers::header;
use super::attempt::Attempt;
use super::host::Host;
use super::remote::Remote;
use super::retry::{Capability, Try};
use crate::media_type::OCI_INDEX;
use crate::{Digest, Error, Result};

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 8;
/// Maximum number of artifacts attached to one manifest.
pub(crate) const MAX_REFERRERS: usize = 1024;

/// An artifact that refers to a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Referrer {
    pub(crate) digest: Digest,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Remote {
    /// Lists the artifacts attached to this manifest, of the types that `is_wanted` accepts. Requests the API and the
    /// tag in parallel; uses the tag only if there is no API.
    pub(crate) async fn referrers(
        &self,
        digest: &Digest,
        is_wanted: impl Fn(&str) -> bool + Sync,
    ) -> Result<Vec<Referrer>> {
        let what = format!("the list of artifacts attached to {digest}");
        let list = GetReferrers {
            what: &what,
            digest,
        };
        let progress = AtomicU64::new(0);
        let by_api = Box::pin(self.attempt(Capability::Pull, &progress, &list));
        let by_tag = Box::pin(self.referrers_tag(digest));
        let (by_api, by_tag) = match select(by_api, by_tag).await {
            Either::Left((answer, tag)) => (answer, Either::Left(tag)),
            Either::Right((tag, api)) => (api.await, Either::Right(ready(tag))),
        };
        let pages = match by_api {
            Ok(pages) => pages,
            // Registries without the API respond in different ways.
            Err(Error::NotInRegistry { .. } | Error::Protocol { .. }) => match by_tag.await {
                Ok(list) => vec![list],
                Err(Error::NotInRegistry { .. }) => return Ok(Vec::new()),
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for page in pages {
            found.extend(listed(&what, &page, &is_wanted)?);
        }
        if found.len() > MAX_REFERRERS {
            return Err(Error::too_large(
                what,
                format!("{MAX_REFERRERS} artifacts of one type"),
            ));
        }
        Ok(found)
    }

    /// Fetches the list at the referrers tag of a digest.
    async fn referrers_tag(&self, digest: &Digest) -> Result<Vec<u8>> {
        Ok(self.attachment(&tag_of(digest)).await?.bytes)
    }
}

/// Returns the referrers tag of a digest, with long digests cut.
fn tag_of(digest: &Digest) -> String {
    let text = digest.to_string();
    let (algorithm, digits) = text.split_once(':').unwrap_or((&text, ""));
    format!("{algorithm}-{}", &digits[..digits.len().min(64)])
}

/// Parses a list, and omits unwanted artifacts.
pub(crate) fn listed(
    what: &str,
    list: &[u8],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Referrer>> {
    let list: List = serde_json::from_slice(list).map_err(|error| Error::invalid(what, error))?;
    let wanted = list.manifests.into_iter().filter(|one| {
        // Some registries report the configuration's media type for artifacts without a type.
        is_wanted(one.artifact_type.as_deref().unwrap_or_default())
    });
    wanted
        .map(|one| {
            let digest = one.digest.parse();
            Ok(Referrer {
                digest: digest.map_err(|error| Error::invalid(what, error))?,
                annotations: one.annotations.unwrap_or_default(),
            })
        })
        .collect()
}

#[derive(Deserialize)]
struct List {
    manifests: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    digest: String,
    artifact_type: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

struct GetReferrers<'a> {
    what: &'a str,
    digest: &'a Digest,
}

impl Try for GetReferrers<'_> {
    type Done = Vec<Vec<u8>>;

    async fn once(&self, remote: &Remote, host: &Host) -> Result<Self::Done, Attempt> {
        let what = self.what;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(OCI_INDEX));
        let _connection = remote.connection(host).await?;
        let mut place = remote.url(host, &format!("referrers/{}", self.digest));
        let mut pages = Vec::new();
        let mut bytes = 0;
        loop {
            let (response, _) = remote.send(what, host, place.clone(), &headers).await?;
            let response = remote.check(what, host, response).await?;
            let next = header(&response, &LINK).and_then(|link| next_page(&place, &link));
            let page = remote.small_body(what, host, response).await?;
            bytes += page.len() as u64;
            if bytes > remote.settings.manifest_bytes {
                let limit = format!("{} bytes", remote.settings.manifest_bytes);
                return Err(Attempt::Abort(Error::too_large(what, limit)));
            }
            pages.push(page);
            place = match next {
                None => return Ok(pages),
                Some(next) if pages.len() < MAX_PAGES => next,
                Some(_) => {
                    let limit = format!("{MAX_PAGES} pages");
                    return Err(Attempt::Abort(Error::too_large(what, limit)));
                }
            };
        }
    }
}

/// Returns the next page of a list (RFC 8288) at the same host.
fn next_page(from: &Url, link: &str) -> Option<Url> {
    let of_next = link.split(',').find(|one| {
        let parameters = one.split(';').skip(1).map(str::trim);
        let mut parameters = parameters.filter_map(|it| it.split_once('='));
        parameters.any(|(name, value)| {
            name.trim().eq_ignore_ascii_case("rel") && value.trim().trim_matches('"') == "next"
        })
    })?;
    let target = of_next.split(';').next()?.trim();
    let target = target.strip_prefix('<')?.strip_suffix('>')?;
    let next = from.join(target).ok()?;
    (next.origin() == from.origin()).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_on_at_the_same_host_only() {
        let from = Url::parse("https://a.example/v2/x/referrers/sha256:1").unwrap();
        for (link, next) in [
            (
                r#"</v2/x/referrers/sha256:1?last=2>; rel="next""#,
                Some("https://a.example/v2/x/referrers/sha256:1?last=2"),
            ),
            (
                "<https://a.example/y>; rel=prev, <?n=1>;title=x; rel = next",
                Some("https://a.example/v2/x/referrers/sha256:1?n=1"),
            ),
            (r#"<https://b.example/>; rel="next""#, None),
            (r#"<http://a.example/>; rel="next""#, None),
            (r#"</v2>; rel="last""#, None),
            (r#"/v2; rel="next""#, None),
            ("", None),
            (";,;", None),
        ] {
            let found = next_page(&from, link);
            assert_eq!(found.as_ref().map(Url::as_str), next, "{link}");
        }
    }

    #[test]
    fn what_is_not_wanted_is_left_out_of_a_list() {
        let digest = Digest::of(b"x");
        let list = serde_json::json!({ "manifests": [
            { "digest": digest.to_string(), "artifactType": "a", "annotations": { "k": "v" } },
            { "digest": digest.to_string(), "artifactType": "b" },
            { "digest": digest.to_string() },
            { "digest": "not read", "artifactType": "c" },
        ] });
        let read = |wanted: &str| listed("x", list.to_string().as_bytes(), |kind| kind == wanted);
        let found = read("a").unwrap();
        assert_eq!((found.len(), found[0].digest), (1, digest));
        assert_eq!(found[0].annotations["k"], "v");
        assert_eq!(read("").unwrap().len(), 1);
        assert_eq!(read("d").unwrap(), []);
        read("c").unwrap_err();
        listed("x", b"{}", |_| true).unwrap_err();
    }
}
