//! An image that another program will pull, with its signatures.

use crate::evidence::Findings;
use crate::{Digest, Reference};

/// What may be pulled.
#[derive(Debug)]
pub enum Leave {
    /// Exactly this.
    Of(Box<Examined>),
    /// What was asked for, whatever it is: no signature matters, and what there is of them can't be had.
    AsNamed,
}

/// An image that may be pulled.
#[derive(Debug)]
pub struct Examined {
    /// Its full name.
    pub name: Reference,
    /// What the name means: an index, or the manifest.
    pub(super) top: Digest,
    /// The manifest for the platform.
    pub(super) manifest: Digest,
    /// The configuration that it names.
    pub(super) config: Digest,
    /// Whether all that the index leads to may be used: it is not the manifest alone that is signed.
    pub(super) covers_index: bool,
    pub(super) found: Findings,
}

/// What the ids of another's images are digests of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignIds {
    /// The image's configuration.
    Configurations,
    /// The manifest or index that it was pulled by: which manifest of an index a container gets, is chosen later.
    Manifests,
}

/// What to pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// By which digest.
    pub digest: Digest,
    /// The id that the image must have then: with any other it is not the one that was judged.
    pub id: Digest,
}

/// What speaks for this manifest or index.
pub(super) fn of(found: &Findings, digest: Digest) -> Findings {
    let mut of = found.clone();
    let mut manifests = found.evidence.manifests.iter();
    let place = manifests.position(|it| *it == digest);
    of.evidence.manifests = vec![digest];
    let is_accepted = place.is_some_and(|place| place < found.accepted.manifests);
    of.accepted.manifests = usize::from(is_accepted);
    of
}

impl Examined {
    /// What to pull, in this order until an image has the id that it must have.
    pub fn targets(&self, ids: ForeignIds) -> Vec<Target> {
        let target = |digest, id| Target { digest, id };
        match ids {
            ForeignIds::Configurations if self.top == self.manifest => {
                vec![target(self.top, self.config)]
            }
            // Another may choose another manifest of the index.
            ForeignIds::Configurations => vec![
                target(self.top, self.config),
                target(self.manifest, self.config),
            ],
            ForeignIds::Manifests if self.covers_index => vec![target(self.top, self.top)],
            ForeignIds::Manifests => vec![target(self.manifest, self.manifest)],
        }
    }

    /// What speaks for the image with this id, which is one of a target's.
    pub(super) fn found_of(&self, id: Digest) -> Findings {
        if id == self.top {
            of(&self.found, id)
        } else {
            self.found.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;

    fn examined(top: &[u8], covers_index: bool) -> Examined {
        let (manifest, top) = (Digest::of(b"manifest"), Digest::of(top));
        let mut manifests = vec![manifest, top];
        manifests.dedup();
        Examined {
            name: "a.example/b:1".parse().unwrap(),
            top,
            manifest,
            config: Digest::of(b"config"),
            covers_index,
            found: Findings {
                evidence: Evidence {
                    manifests,
                    ..Evidence::default()
                },
                ..Findings::default()
            },
        }
    }

    #[test]
    fn an_index_is_pulled_as_a_whole_only_where_all_of_it_was_judged() {
        let (index, manifest) = (Digest::of(b"index"), Digest::of(b"manifest"));
        let config = Digest::of(b"config");
        let targets = |top: &[u8], covers, ids| {
            let targets = examined(top, covers).targets(ids);
            let targets = targets.iter().map(|it| (it.digest, it.id));
            targets.collect::<Vec<_>>()
        };
        use ForeignIds::{Configurations, Manifests};
        // The id tells that it is the one that was judged, whatever was chosen of the index.
        let by_config = [(index, config), (manifest, config)];
        assert_eq!(targets(b"index", false, Configurations), by_config);
        let whole = [(manifest, config)];
        assert_eq!(targets(b"manifest", true, Configurations), whole);
        assert_eq!(targets(b"index", true, Manifests), [(index, index)]);
        let part = [(manifest, manifest)];
        assert_eq!(targets(b"index", false, Manifests), part);
        assert_eq!(targets(b"manifest", true, Manifests), part);
        let mut examined = examined(b"index", true);
        examined.found.accepted.manifests = 1;
        let manifests = |id| {
            let found = examined.found_of(id);
            (found.evidence.manifests, found.accepted.manifests)
        };
        assert_eq!(manifests(index), (vec![index], 0));
        assert_eq!(manifests(config), (vec![manifest, index], 1));
    }
}
