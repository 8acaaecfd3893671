//! The record of an image that was pulled or imported.

use std::collections::{BTreeSet, HashSet};

use crate::clock::now;
use crate::document::Document;
use crate::evidence::Findings;
use crate::store::{ImageRecord, Store};
use crate::{Digest, Error, Reference, Result, Selector};

/// An image with all its layers here, or for guests, about to get its names.
pub(crate) struct Named {
    /// Whether only who has a key may use it.
    pub(crate) is_encrypted: bool,
    /// What its layers are called whose archives have been hashed, where that is how they are known.
    pub(crate) proven: Option<HashSet<Digest>>,
    pub(crate) names: Vec<Reference>,
    /// Whose guests it is for; empty: all its layers are here.
    pub(crate) handler: String,
    /// Keys, base first.
    pub(crate) layers: Vec<Digest>,
    pub(crate) manifest: Document,
    pub(crate) config: Document,
    /// What was found out of its signatures, where somebody may ask for that.
    pub(crate) evidence: Option<Findings>,
}

impl Named {
    /// Whether layers and manifest of an image that is here whole stay as they are. Fails where this one and that can't
    /// both be believed.
    fn leaves(&self, known: &ImageRecord) -> Result<bool> {
        let is_for_guests = !self.handler.is_empty();
        let is_known_proven = self.are_proven(&known.layers);
        // Where nobody has hashed the layers of one of both, neither takes the other's place, or has its signatures.
        let is_other = if is_for_guests {
            let is_lazy = !known.is_encrypted && !is_known_proven;
            is_lazy && known.manifest != self.manifest.digest
        } else {
            let is_lazy = !self.is_encrypted && !self.are_proven(&self.layers);
            is_lazy && known.layers != self.layers
        };
        if is_other {
            return Err(Error::Crowded(format!(
                "this node stores another image with the same configuration ({}), and the layers \
                 of one of them were pulled lazily and not verified; pull this image again, or \
                 remove the other image",
                known.id
            )));
        }
        // The same files may be had without a key: whoever encrypts an image of others takes it from nobody. And for
        // guests nothing of what is here was looked at, nor has come.
        let was_plain = !known.is_encrypted && is_known_proven;
        Ok(is_for_guests || self.is_encrypted && was_plain)
    }

    /// Whether the archives of all these layers have been hashed.
    fn are_proven(&self, layers: &[Digest]) -> bool {
        let names = self.proven.as_ref();
        names.is_none_or(|names| layers.iter().all(|key| names.contains(key)))
    }

    /// Records the image. Blocks.
    pub(crate) fn put(mut self, store: &Store) -> Result<()> {
        let id = self.config.digest;
        let evidence = self.evidence.take();
        let evidence = evidence.map(|found| Ok::<_, Error>((store.evidence(&id)?, found)));
        let evidence = evidence.transpose()?;
        store.update(|state, change| {
            let known = state.images.get(&id);
            let mut record = known.cloned().unwrap_or_else(|| ImageRecord {
                id,
                manifest: self.manifest.digest,
                layers: Vec::new(),
                tags: BTreeSet::new(),
                digests: BTreeSet::new(),
                created: now(),
                handlers: BTreeSet::new(),
                is_encrypted: false,
            });
            let keeps = match known.filter(|it| it.is_whole()) {
                Some(known) => self.leaves(known)?,
                None => false,
            };
            let manifest = if keeps {
                record.manifest
            } else {
                self.manifest.digest
            };
            let replaced = std::mem::replace(&mut record.manifest, manifest);
            if self.handler.is_empty() && !keeps {
                record.layers.clone_from(&self.layers);
                record.is_encrypted = self.is_encrypted;
            }
            record.handlers.insert(self.handler);
            let names = |tags: bool| {
                self.names
                    .iter()
                    .filter(move |name| matches!(name.selector(), Selector::Tag(_)) == tags)
                    .map(ToString::to_string)
            };
            let tags: BTreeSet<String> = names(true).collect();
            for (other, image) in &state.images {
                // A tag names one image: the one it was pulled as last.
                if *other != id && !image.tags.is_disjoint(&tags) {
                    let mut image = image.clone();
                    image.tags.retain(|tag| !tags.contains(tag));
                    change.images.push((*other, Some(image)));
                }
            }
            record.tags.extend(tags);
            record.digests.extend(names(false));
            if let Some((kept, found)) = evidence {
                let named = repositories(&record);
                let mut together = kept.clone();
                together.add(found.clone(), &named);
                // What is known already is not written again, unless the image has gone meanwhile.
                if together != kept || known.is_none() {
                    change.evidence.push((id, found, named));
                }
            }
            if known == Some(&record) {
                return Ok(());
            }
            let still_used = state
                .images
                .iter()
                .any(|(other, image)| *other != id && image.manifest == replaced);
            if replaced != manifest && !still_used {
                change.documents.push((replaced, None));
            }
            if !keeps {
                change.documents.push((manifest, Some(self.manifest)));
            }
            change.documents.push((id, Some(self.config)));
            change.images.push((id, Some(record)));
            Ok(())
        })
    }
}

/// The repositories that an image has names of.
fn repositories(record: &ImageRecord) -> BTreeSet<String> {
    let names = record.tags.iter().chain(&record.digests);
    let names = names.filter_map(|name| name.parse::<Reference>().ok());
    names.map(|name| name.repository().to_string()).collect()
}
