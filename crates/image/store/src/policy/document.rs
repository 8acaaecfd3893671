//! Parses `policy.json` strictly: an error anywhere rejects the whole file.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use super::json::{At, Wrong};
use super::scope;
use super::signed_by::SignedBy;
use super::sigstore::SigstoreSigned;
use crate::clock::now;
use crate::{Digest, Reference};

/// Requirement type of signatures that are attached to an image.
pub(crate) const SIGSTORE_SIGNED: &str = "sigstoreSigned";

/// Requirement type of GPG signatures.
pub(crate) const SIGNED_BY: &str = "signedBy";

/// The requirements that images must fulfil, by their scope.
#[derive(Debug)]
pub struct Policy {
    /// The policy's file.
    pub(super) file: PathBuf,
    text: Digest,
    default: Requirements,
    /// By scope of the transport `docker`, which all images use.
    docker: BTreeMap<String, Requirements>,
}

/// The requirements for an image, which must fulfil all of them.
#[derive(Debug)]
pub(crate) struct Requirements {
    /// The place in the policy.
    pub(crate) place: String,
    pub(crate) list: Vec<Requirement>,
}

/// A requirement for an image.
#[derive(Debug)]
pub(crate) enum Requirement {
    /// Every image fulfils it.
    AcceptAnything,
    /// No image fulfils it.
    Reject,
    /// A sigstore signature of a certain signer for a certain name.
    Sigstore(Box<SigstoreSigned>),
    /// A GPG signature.
    SignedBy(SignedBy),
}

/// The kinds of signatures that the policy requires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Signatures that are attached to the image in its registry.
    pub(crate) attached: bool,
    /// Attached attestations, which state something other than that the image is signed.
    pub(crate) attestations: bool,
    /// Signed messages in signature stores.
    pub(crate) messages: bool,
}

impl Needs {
    pub(crate) fn any(self) -> bool {
        self.attached || self.messages
    }
}

impl Requirement {
    /// Returns the requirement type in the policy.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::AcceptAnything => "insecureAcceptAnything",
            Self::Reject => "reject",
            Self::Sigstore(_) => SIGSTORE_SIGNED,
            Self::SignedBy(_) => SIGNED_BY,
        }
    }
}

impl Policy {
    /// Parses the text of `file`.
    pub(crate) fn parse(file: &Path, text: &[u8]) -> Result<Self, Wrong> {
        let mut fields = At::parse(text)?.fields()?;
        let default = requirements(fields.required("default")?)?;
        let mut docker = BTreeMap::new();
        if let Some(transports) = fields.take("transports") {
            for (name, scopes) in transports.entries()? {
                for (scope, list) in scopes.entries()? {
                    let place = list.place.clone();
                    // Requirements of other transports are not used, but must be valid.
                    let requirements = requirements(list)?;
                    if name != "docker" {
                        continue;
                    }
                    let scope = scope::normal(&scope).map_err(|it| Wrong::new(&place, it))?;
                    if docker.insert(scope, requirements).is_some() {
                        return Err(Wrong::new(&place, "duplicate scope"));
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

    /// Returns the requirements for an image, from the most specific scope only.
    pub(crate) fn requirements(&self, name: Option<&Reference>) -> &Requirements {
        let scopes = name.map(scope::of).unwrap_or_default();
        let of_scope = scopes.iter().find_map(|scope| self.docker.get(scope));
        of_scope.unwrap_or(&self.default)
    }

    /// Returns the kinds of signatures that the policy requires for an image.
    pub(crate) fn needs(&self, name: &Reference) -> Needs {
        let list = &self.requirements(Some(name)).list;
        let is_there = |wanted: fn(&Requirement) -> bool| list.iter().any(wanted);
        Needs {
            attached: is_there(|it| matches!(it, Requirement::Sigstore(_))),
            attestations: is_there(
                |it| matches!(it, Requirement::Sigstore(signed) if signed.is_of_attestations()),
            ),
            messages: is_there(|it| matches!(it, Requirement::SignedBy(_))),
        }
    }

    /// Returns scopes that no image matches, with the reasons.
    pub(super) fn unused(&self) -> Vec<String> {
        let docker = self.docker.iter();
        let unused = docker.filter_map(|(scope, of)| Some((scope::unused(scope)?, &of.place)));
        unused
            .map(|(why, place)| format!("{place}: no image matches this scope: {why}"))
            .collect()
    }

    /// Reads all keys and certificates of the policy. Fails with the place of an invalid one. Blocks.
    pub(super) fn check(&self) -> Result<(), String> {
        for requirements in self.docker.values().chain([&self.default]) {
            for (index, requirement) in requirements.list.iter().enumerate() {
                let read = match requirement {
                    Requirement::Sigstore(signed) => signed.check(),
                    Requirement::SignedBy(signed) => signed.check(now()),
                    Requirement::AcceptAnything | Requirement::Reject => Ok(()),
                };
                let place = &requirements.place;
                read.map_err(|reason| format!("{place}[{index}]: {reason}"))?;
            }
        }
        Ok(())
    }
}

/// Compares the file and its text.
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
        SIGSTORE_SIGNED => Requirement::Sigstore(Box::new(SigstoreSigned::parse(&mut fields)?)),
        SIGNED_BY => Requirement::SignedBy(SignedBy::parse(&mut fields)?),
        "signedBaseLayer" => {
            let problem = "\"signedBaseLayer\" is not supported; use \"signedBy\" or \
                           \"sigstoreSigned\"";
            return Err(Wrong::new(&place, problem));
        }
        other => {
            let problem = format!("unknown requirement type {other:?}");
            return Err(Wrong::new(&place, problem));
        }
    };
    fields.finish()?;
    Ok(requirement)
}
