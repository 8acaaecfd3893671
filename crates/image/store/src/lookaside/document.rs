//! Parses one file of `registries.d`.

use std::collections::BTreeMap;
use std::path::Path;

use orlop_yaml::{Content, Document, Entry, Node, documents};
use reqwest::Url;

use super::base::Base;
use crate::policy::scope;

/// The settings in a file.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Settings of all images without settings of their own.
    pub(crate) default: Option<Section>,
    /// Settings by scope.
    pub(crate) docker: BTreeMap<String, Section>,
}

/// Settings of some images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// The location of the signature store.
    pub(crate) lookaside: Option<Base>,
    /// Whether signatures attached to the image in its registry count.
    pub(crate) attachments: Option<bool>,
}

/// Parses a file. An error contains the position.
pub(crate) fn parse(text: &str) -> Result<Said, String> {
    let mut said = Said::default();
    let mut documents = documents(text).into_iter();
    let node = match documents.next() {
        None => return Ok(said),
        Some(Document::Good(node)) => node,
        Some(Document::Bad(at, why)) => return Err(format!("{at}: {why}")),
    };
    if documents.next().is_some() {
        return Err("it has more than one YAML document".to_owned());
    }
    for entry in map(&node)? {
        match entry.key.as_str() {
            "default-docker" => said.default = Some(section(&entry.value)?),
            "docker" => {
                for entry in map(&entry.value)? {
                    let scope = scope::normal(&entry.key);
                    let scope = scope.map_err(|why| wrong(entry, why))?;
                    if said.docker.insert(scope, section(&entry.value)?).is_some() {
                        return Err(wrong(entry, "duplicate scope"));
                    }
                }
            }
            _ => return Err(wrong(entry, "unknown field")),
        }
    }
    Ok(said)
}

fn section(node: &Node) -> Result<Section, String> {
    let mut section = Section::default();
    let mut older = None;
    for entry in map(node)? {
        match entry.key.as_str() {
            "lookaside" => section.lookaside = base(entry)?,
            // Its old name.
            "sigstore" => older = base(entry)?,
            // Only for programs that write signatures.
            "lookaside-staging" | "sigstore-staging" => {}
            "use-sigstore-attachments" => {
                let Content::Bool(value) = entry.value.content else {
                    let found = entry.value.what();
                    return Err(wrong(entry, format!("must be true or false, not {found}")));
                };
                section.attachments = Some(value);
            }
            _ => return Err(wrong(entry, "unknown field")),
        }
    }
    section.lookaside = section.lookaside.or(older);
    Ok(section)
}

/// Parses the URL of a signature store; `None` if it is empty.
fn base(entry: &Entry) -> Result<Option<Base>, String> {
    let text = match &entry.value.content {
        Content::Null => return Ok(None),
        Content::Text(text) if text.is_empty() => return Ok(None),
        Content::Text(text) => text,
        _ => {
            let found = entry.value.what();
            return Err(wrong(entry, format!("must be a URL, not {found}")));
        }
    };
    let url = Url::parse(text).map_err(|error| wrong(entry, format!("{text:?}: {error}")))?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong(entry, "the URL must not have a query or a fragment"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(entry, "the URL must not contain credentials"));
    }
    match url.scheme() {
        "http" | "https" => Ok(Some(Base::Web(url))),
        "file" => {
            let path = url.to_file_path();
            let path = path
                .map_err(|()| wrong(entry, "a file URL must have an absolute path and no host"))?;
            Ok(Some(Base::Directory(path)))
        }
        other => {
            let problem = format!("{other:?} URLs are not supported; use file, http or https");
            Err(wrong(entry, problem))
        }
    }
}

fn map(node: &Node) -> Result<&[Entry], String> {
    match &node.content {
        Content::Map(entries) => Ok(entries),
        Content::Null => Ok(&[]),
        _ => Err(format!("{}: must be a map, not {}", node.at, node.what())),
    }
}

fn wrong(entry: &Entry, why: impl std::fmt::Display) -> String {
    format!("{}: {:?}: {why}", entry.at, entry.key)
}

/// Returns whether a file contains settings.
pub(super) fn is_settings(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "yaml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_distributions_have_is_read() {
        let text = "
# comment
default-docker:
#  lookaside: http://privateregistry.example/sigstore/
   lookaside-staging: file:///var/lib/containers/sigstore
docker:
    registry.access.redhat.example:
        sigstore: https://access.redhat.example/webassets/docker/content/sigstore
    '*.b.example':
    A.example:5000/team:
        lookaside: file:///srv/sigs%20a
        sigstore: file:///old
        use-sigstore-attachments: no
";
        let said = parse(text).unwrap();
        assert_eq!(said.default, Some(Section::default()));
        let web = Url::parse("https://access.redhat.example/webassets/docker/content/sigstore");
        assert_eq!(
            said.docker["registry.access.redhat.example"].lookaside,
            Some(Base::Web(web.unwrap()))
        );
        assert_eq!(said.docker["*.b.example"], Section::default());
        let section = &said.docker["a.example:5000/team"];
        assert_eq!(
            section.lookaside,
            Some(Base::Directory("/srv/sigs a".into()))
        );
        assert_eq!(section.attachments, Some(false));
        for empty in ["", "# nothing\n", "docker:\n", "default-docker: {}\n"] {
            assert!(parse(empty).unwrap().docker.is_empty());
        }
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, complaint) in [
            ("- a\n", "line 1: must be a map, not a list"),
            ("\ndoker: {}\n", "line 2: \"doker\": unknown field"),
            ("docker: [a]\n", "line 1: must be a map"),
            ("docker:\n  a: x\n", "line 2: must be a map, not a string"),
            (
                "docker:\n  a: { lookside: x }\n",
                "\"lookside\": unknown field",
            ),
            (
                "docker:\n  https://a: {}\n",
                "a scope must not have a scheme",
            ),
            ("docker:\n  a: {}\n  A: {}\n", "duplicate scope"),
            (
                "default-docker:\n  lookaside: 7\n",
                "must be a URL, not the number 7",
            ),
            ("default-docker:\n  lookaside: x\n", "relative URL"),
            (
                "default-docker:\n  lookaside: ftp://a/b\n",
                "\"ftp\" URLs are not supported",
            ),
            (
                "default-docker:\n  lookaside: file://host/b\n",
                "must have an absolute path and no host",
            ),
            (
                "default-docker:\n  lookaside: http://a/?b\n",
                "must not have a query or a fragment",
            ),
            (
                "default-docker:\n  sigstore: http://a:b@c/\n",
                "must not contain credentials",
            ),
            (
                "default-docker:\n  use-sigstore-attachments: 1\n",
                "must be true or false",
            ),
            ("a: b\n---\nc: d\n", "more than one YAML document"),
            ("docker: [\n", "line "),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(complaint), "{text:?}: {error}");
        }
    }
}
