//! An image that another program will pull, and its signatures.

use crate::evidence::Findings;
use crate::{Digest, Reference};

/// What the other program may pull.
#[derive(Debug)]
pub enum Leave {
    /// Exactly this image.
    Of(Box<Examined>),
    /// The name, whatever it refers to: no signature is required, and none could be fetched.
    AsNamed,
}

/// An image that may be pulled.
#[derive(Debug)]
pub struct Examined {
    /// Its full name.
    pub name: Reference,
    /// The index or manifest that the name refers to.
    pub(super) top: Digest,
    /// The manifest for the platform.
    pub(super) manifest: Digest,
    /// The configuration in the manifest.
    pub(super) config: Digest,
    /// Whether the policy allows the whole index, not just one manifest of it.
    pub(super) covers_index: bool,
    pub(super) found: Findings,
}

/// The kind of digest that another program uses as image id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignIds {
    /// The digest of the image's configuration.
    Configurations,
    /// The digest of the pulled manifest or index. The manifest of an index is chosen for each container.
    Manifests,
}

/// A digest to pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The digest to pull.
    pub digest: Digest,
    /// The id that the pulled image must have. An image with any other id was not checked.
    pub id: Digest,
}

/// Returns the part of the findings that is about this manifest or index.
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
    /// Returns the digests to pull, in order, until an image has the required id.
    pub fn targets(&self, ids: ForeignIds) -> Vec<Target> {
        let target = |digest, id| Target { digest, id };
        match ids {
            ForeignIds::Configurations if self.top == self.manifest => {
                vec![target(self.top, self.config)]
            }
            // The other program may choose a different manifest of the index.
            ForeignIds::Configurations => vec![
                target(self.top, self.config),
                target(self.manifest, self.config),
            ],
            ForeignIds::Manifests if self.covers_index => vec![target(self.top, self.top)],
            ForeignIds::Manifests => vec![target(self.manifest, self.manifest)],
        }
    }

    /// Returns the findings for the image with this id, which is the id of a target.
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
        // The configuration id identifies the checked image, whichever manifest of the index was chosen.
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
