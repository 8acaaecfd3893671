//! The record of an image that was pulled or imported.

use std::collections::{BTreeSet, HashSet};

use crate::clock::now;
use crate::document::Document;
use crate::evidence::Findings;
use crate::store::{ImageRecord, Store};
use crate::{Digest, Error, Reference, Result, Selector};

/// An image that is about to get its names. All its layers are stored, or it is for guests.
pub(crate) struct Named {
    /// Whether only clients with a key may use it.
    pub(crate) is_encrypted: bool,
    /// Keys that prove that a layer's archive was hashed; `None` if all keys do, as for artifacts.
    pub(crate) proven: Option<HashSet<Digest>>,
    pub(crate) names: Vec<Reference>,
    /// Runtime handler of the guests that the image is for; empty if all its layers are stored.
    pub(crate) handler: String,
    /// Keys of the layers, base first.
    pub(crate) layers: Vec<Digest>,
    pub(crate) manifest: Document,
    pub(crate) config: Document,
    /// Findings about its signatures, if they are needed.
    pub(crate) evidence: Option<Findings>,
}

impl Named {
    /// Returns whether the layers and manifest of a complete stored image stay. Fails if the two images contradict
    /// each other.
    fn leaves(&self, known: &ImageRecord) -> Result<bool> {
        let is_for_guests = !self.handler.is_empty();
        let is_known_proven = self.are_proven(&known.layers);
        // Unless the layers of both images were hashed, neither replaces the other or takes over its signatures.
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
        // An encrypted copy does not replace a plain image, because the plain files need no key. A pull for guests
        // verified and fetched no layers.
        let was_plain = !known.is_encrypted && is_known_proven;
        Ok(is_for_guests || self.is_encrypted && was_plain)
    }

    /// Returns whether the archives of all these layers were hashed.
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
                // A tag names only the image it was last pulled as.
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
                // Known findings are not written again, unless the image was removed meanwhile.
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

/// Returns the repositories of an image's names.
fn repositories(record: &ImageRecord) -> BTreeSet<String> {
    let names = record.tags.iter().chain(&record.digests);
    let names = names.filter_map(|name| name.parse::<Reference>().ok());
    names.map(|name| name.repository().to_string()).collect()
}
