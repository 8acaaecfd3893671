//! `policy.json`, read whole or refused whole.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::identity::SignedIdentity;
use super::json::{At, Fields, Wrong};
use super::key::{KeySource, PublicKey};
use super::scope;
use super::signed_by::SignedBy;
use crate::{Digest, Reference};

/// More keys than anybody needs for one image.
const MAX_KEYS: usize = 64;

/// Fields of `sigstoreSigned` that this node can't act on. Leaving one out of account would
/// accept what the policy refuses.
const UNSUPPORTED_FIELDS: [&str; 6] = [
    "fulcio",
    "pki",
    "rekorPublicKeyPath",
    "rekorPublicKeyPaths",
    "rekorPublicKeyData",
    "rekorPublicKeyDatas",
];

/// What images must fulfil, by where they come from.
#[derive(Debug)]
pub struct Policy {
    /// The file that says so.
    pub(super) file: PathBuf,
    text: Digest,
    default: Requirements,
    /// By scope of the transport `docker`, which is where all images come from.
    docker: BTreeMap<String, Requirements>,
}

/// What an image must fulfil, all of it.
#[derive(Debug)]
pub(crate) struct Requirements {
    /// Where the policy says so.
    pub(crate) place: String,
    pub(crate) list: Vec<Requirement>,
}

/// Something that an image must fulfil.
#[derive(Debug)]
pub(crate) enum Requirement {
    /// Nothing.
    AcceptAnything,
    /// What none does.
    Reject,
    /// Signed by one of the keys, for a certain name.
    Signed {
        keys: Vec<KeySource>,
        identity: SignedIdentity,
    },
    /// Signed with GPG.
    SignedBy(SignedBy),
}

/// Which kinds of signatures decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Those that are attached to the image in its registry.
    pub(crate) attached: bool,
    /// Signed messages, which are elsewhere.
    pub(crate) messages: bool,
}

impl Needs {
    pub(crate) fn any(self) -> bool {
        self.attached || self.messages
    }
}

impl Requirement {
    /// What the policy calls it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::AcceptAnything => "insecureAcceptAnything",
            Self::Reject => "reject",
            Self::Signed { .. } => "sigstoreSigned",
            Self::SignedBy(_) => "signedBy",
        }
    }
}

impl Policy {
    /// Reads the text of `file`.
    pub(crate) fn parse(file: &Path, text: &[u8]) -> Result<Self, Wrong> {
        let mut fields = At::parse(text)?.fields()?;
        let default = requirements(fields.required("default")?)?;
        let mut docker = BTreeMap::new();
        if let Some(transports) = fields.take("transports") {
            for (name, scopes) in transports.entries()? {
                for (scope, list) in scopes.entries()? {
                    let place = list.place.clone();
                    // Those of other transports are never used, but are to be right, too.
                    let requirements = requirements(list)?;
                    if name != "docker" {
                        continue;
                    }
                    let scope = scope::normal(&scope).map_err(|it| Wrong::new(&place, it))?;
                    if docker.insert(scope, requirements).is_some() {
                        return Err(Wrong::new(&place, "this scope is there twice"));
                    }
                }
            }
        }
        fields.finish()?;
        Ok(Self {
            file: file.to_owned(),
            text: Digest::of(text),
            default,
            docker,
        })
    }

    /// What holds for an image: what the most specific scope says, and nothing else.
    pub(crate) fn requirements(&self, name: Option<&Reference>) -> &Requirements {
        let scopes = name.map(scope::of).unwrap_or_default();
        let of_scope = scopes.iter().find_map(|scope| self.docker.get(scope));
        of_scope.unwrap_or(&self.default)
    }

    /// Which signatures decide whether an image may be used.
    pub(crate) fn needs(&self, name: &Reference) -> Needs {
        let list = &self.requirements(Some(name)).list;
        let is_there = |wanted: fn(&Requirement) -> bool| list.iter().any(wanted);
        Needs {
            attached: is_there(|it| matches!(it, Requirement::Signed { .. })),
            messages: is_there(|it| matches!(it, Requirement::SignedBy(_))),
        }
    }

    /// All keys that are named anywhere, with their places.
    pub(super) fn keys(&self) -> impl Iterator<Item = (String, Keys<'_>)> {
        let all = self.docker.values().chain([&self.default]);
        all.flat_map(|requirements| {
            let list = requirements.list.iter().enumerate();
            list.flat_map(move |(index, requirement)| {
                let keys: Vec<_> = match requirement {
                    Requirement::Signed { keys, .. } => keys.iter().map(Keys::Sigstore).collect(),
                    Requirement::SignedBy(signed) => vec![Keys::Gpg(signed)],
                    Requirement::AcceptAnything | Requirement::Reject => Vec::new(),
                };
                let place = format!("{}[{index}]", requirements.place);
                keys.into_iter().map(move |key| (place.clone(), key))
            })
        })
    }
}

/// What a requirement names to verify signatures by.
pub(super) enum Keys<'p> {
    Sigstore(&'p KeySource),
    Gpg(&'p SignedBy),
}

/// The same file with the same text.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file && self.text == other.text
    }
}

impl Eq for Policy {}

impl Hash for Policy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.file.hash(state);
        self.text.hash(state);
    }
}

fn requirements(value: At) -> Result<Requirements, Wrong> {
    let place = value.place.clone();
    let list = value.some()?;
    let list = list
        .into_iter()
        .map(requirement)
        .collect::<Result<_, _>>()?;
    Ok(Requirements { place, list })
}

fn requirement(value: At) -> Result<Requirement, Wrong> {
    let mut fields = value.fields()?;
    let kind = fields.required("type")?;
    let place = kind.place.clone();
    let requirement = match kind.text()?.as_str() {
        "insecureAcceptAnything" => Requirement::AcceptAnything,
        "reject" => Requirement::Reject,
        "sigstoreSigned" => signed(&mut fields)?,
        "signedBy" => Requirement::SignedBy(SignedBy::parse(&mut fields)?),
        "signedBaseLayer" => {
            let problem = "\"signedBaseLayer\" is not supported; ask for \"signedBy\" or \
                           \"sigstoreSigned\"";
            return Err(Wrong::new(&place, problem));
        }
        other => {
            let problem = format!("there is no requirement of the type {other:?}");
            return Err(Wrong::new(&place, problem));
        }
    };
    fields.finish()?;
    Ok(requirement)
}

fn signed(fields: &mut Fields) -> Result<Requirement, Wrong> {
    for name in UNSUPPORTED_FIELDS {
        if let Some(value) = fields.take(name) {
            let problem = format!(
                "{name:?} is not supported, signatures are verified by public keys only: use \
                 \"keyPath\""
            );
            return Err(Wrong::new(&value.place, problem));
        }
    }
    let [path, paths] = ["keyPath", "keyPaths"].map(|name| fields.take(name));
    let [data, datas] = ["keyData", "keyDatas"].map(|name| fields.take(name));
    let keys = match (path, paths, data, datas) {
        (Some(path), None, None, None) => vec![key_file(path)?],
        (None, Some(paths), None, None) => several(paths, key_file)?,
        (None, None, Some(data), None) => vec![key_data(data)?],
        (None, None, None, Some(datas)) => several(datas, key_data)?,
        _ => {
            let problem = "needs exactly one of \"keyPath\", \"keyPaths\", \"keyData\" and \
                           \"keyDatas\"";
            return Err(Wrong::new(&fields.place, problem));
        }
    };
    let identity = SignedIdentity::parse_or_default(fields)?;
    Ok(Requirement::Signed { keys, identity })
}

/// A list of places of keys.
pub(super) fn several<T>(
    value: At,
    read: impl Fn(At) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    let place = value.place.clone();
    let keys = value.some()?;
    if keys.len() > MAX_KEYS {
        return Err(Wrong::new(&place, format!("more than {MAX_KEYS} keys")));
    }
    keys.into_iter().map(read).collect()
}

fn key_file(value: At) -> Result<KeySource, Wrong> {
    value.absolute_path().map(KeySource::File)
}

fn key_data(value: At) -> Result<KeySource, Wrong> {
    let place = value.place.clone();
    let text = value.text()?;
    let pem = BASE64_STANDARD.decode(text);
    let pem = pem.map_err(|error| Wrong::new(&place, format!("it is not base64: {error}")))?;
    let key = PublicKey::from_pem(&pem).map_err(|reason| Wrong::new(&place, reason))?;
    Ok(KeySource::Inline(key))
}
