//! Annotations of a layer's descriptor in an image manifest.

use std::ops::Range;

use super::footer;
use super::position::Position;
use crate::error::at_most;
use crate::toc::{Digests, Form, Toc};
use crate::{Digest, Error, Limits, Result};

/// eStargz: the digest of the table of contents as JSON.
const TOC_DIGEST: &str = "containerd.io/snapshot/stargz/toc.digest";
/// eStargz: the size of the decompressed archive.
const UNCOMPRESSED_SIZE: &str = "io.containers.estargz.uncompressed-size";
/// zstd:chunked: the digest of the stored table of contents, and its position: `offset:length:uncompressed
/// length:type`. The second names are those of an older writer.
const CHECKSUM: [&str; 2] = [
    "io.github.containers.zstd-chunked.manifest-checksum",
    "io.containers.zstd-chunked.manifest-checksum",
];
const POSITION: [&str; 2] = [
    "io.github.containers.zstd-chunked.manifest-position",
    "io.containers.zstd-chunked.manifest-position",
];

/// The compression of a layer, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `tar+gzip`.
    Gzip,
    /// `tar+zstd`.
    Zstd,
}

/// The table of contents that a manifest announces for a layer.
#[derive(Debug, Clone)]
pub struct Claim {
    compression: Compression,
    digests: Digests,
    position: Option<Position>,
    uncompressed: Option<u64>,
}

/// The next fetch.
#[derive(Debug)]
pub enum Step {
    /// The last bytes of the layer, for [`Claim::locate`].
    Footer(Range<u64>),
    /// The table of contents.
    Table(Toc),
}

impl Claim {
    /// Reads a layer's annotations; returns `None` if they do not announce a table of contents.
    pub fn of<'a>(
        compression: Compression,
        annotation: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Option<Self>> {
        let find = |names: &[&'static str]| {
            let found = |name: &&'static str| annotation(name).map(|value| (*name, value));
            names.iter().find_map(found)
        };
        let digest = |names: &[&'static str]| match find(names) {
            None => Ok(None),
            Some((name, value)) => match Digest::parse(value) {
                Some(digest) => Ok(Some(digest)),
                None => Err(unclear(name, value)),
            },
        };
        let mut digests = Digests {
            plain: digest(&[TOC_DIGEST])?,
            stored: None,
        };
        let mut position = None;
        if compression == Compression::Zstd {
            digests.stored = digest(&CHECKSUM)?;
            if let Some((name, value)) = find(&POSITION) {
                position = Some(Position::parse(value).ok_or_else(|| unclear(name, value))?);
            }
        }
        if digests.plain.is_none() && digests.stored.is_none() {
            return Ok(None);
        }
        let uncompressed = match find(&[UNCOMPRESSED_SIZE]) {
            None => None,
            Some((name, value)) => Some(value.parse().map_err(|_| unclear(name, value))?),
        };
        Ok(Some(Self {
            compression,
            digests,
            position,
            uncompressed,
        }))
    }

    /// Returns the expected digests of the table of contents, as a unique text.
    pub fn digests(&self) -> String {
        let digest = |it: Option<Digest>| it.map_or_else(String::new, |it| it.to_string());
        let Digests { plain, stored } = self.digests;
        format!("plain {} stored {}", digest(plain), digest(stored))
    }

    /// Returns the announced size of the decompressed archive. It is not verified.
    pub fn uncompressed(&self) -> Option<u64> {
        self.uncompressed
    }

    /// Returns the first fetch for a layer of `blob` bytes.
    pub fn begin(&self, blob: u64, limits: &Limits) -> Result<Step> {
        match self.position {
            Some(position) => Ok(Step::Table(self.zstd(position, blob, limits)?)),
            None => Ok(Step::Footer(blob.saturating_sub(footer::LONGEST)..blob)),
        }
    }

    /// Locates the table of contents by the last bytes of a layer of `blob` bytes. `tail` contains those that
    /// [`Claim::begin`] requested, or more.
    pub fn locate(&self, tail: &[u8], blob: u64, limits: &Limits) -> Result<Toc> {
        match self.compression {
            Compression::Gzip => {
                let range = footer::estargz(tail, blob)?;
                at_most(
                    "bytes of the table of contents",
                    range.end - range.start,
                    limits.fetched,
                )?;
                Ok(Toc {
                    form: Form::EStargz(self.digests),
                    payload: range.start,
                    range,
                    blob,
                })
            }
            Compression::Zstd => self.zstd(footer::zstd_chunked(tail)?, blob, limits),
        }
    }

    fn zstd(&self, position: Position, blob: u64, limits: &Limits) -> Result<Toc> {
        let Position {
            offset,
            length,
            plain,
        } = position;
        at_most("bytes of the table of contents", length, limits.fetched)?;
        at_most(
            "bytes of the decompressed table of contents",
            plain,
            limits.table,
        )?;
        let end = offset.checked_add(length).filter(|end| *end <= blob);
        // The table is in a skippable frame, after that frame's header.
        let payload = offset.checked_sub(footer::FRAME_HEADER);
        let (Some(end), Some(payload)) = (end, payload) else {
            return Err(Error::Table(
                "is outside of the layer according to its annotations",
            ));
        };
        Ok(Toc {
            form: Form::ZstdChunked(self.digests, plain),
            payload,
            range: offset..end,
            blob,
        })
    }
}

fn unclear(name: &'static str, value: &str) -> Error {
    Error::Annotation {
        name,
        value: value.chars().take(100).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    fn claim(compression: Compression, pairs: &[(&str, &str)]) -> Result<Option<Claim>> {
        Claim::of(compression, |name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| *value)
        })
    }

    #[test]
    fn layers_without_a_digest_of_their_contents_promise_nothing() {
        let position = (POSITION[0], "100:10:20:1");
        for pairs in [&[][..], &[position], &[(UNCOMPRESSED_SIZE, "7")]] {
            assert!(claim(Compression::Zstd, pairs).unwrap().is_none());
            assert!(claim(Compression::Gzip, pairs).unwrap().is_none());
        }
        // A position without a digest cannot be verified; a zstd digest does not apply to gzip.
        let checksum = (CHECKSUM[0], DIGEST);
        assert!(claim(Compression::Gzip, &[checksum]).unwrap().is_none());
    }

    #[test]
    fn a_position_spares_the_footer() {
        for at in [0, 1] {
            let pairs = [(CHECKSUM[at], DIGEST), (POSITION[at], "100:10:20:1")];
            let claim = claim(Compression::Zstd, &pairs).unwrap().unwrap();
            let Step::Table(toc) = claim.begin(200, &Limits::default()).unwrap() else {
                panic!("a footer is asked for");
            };
            assert_eq!((toc.range(), toc.payload), (100..110, 92));
        }
    }

    #[test]
    fn without_a_position_the_last_bytes_are_asked_for() {
        let claim = claim(
            Compression::Gzip,
            &[(TOC_DIGEST, DIGEST), (UNCOMPRESSED_SIZE, "7")],
        );
        let claim = claim.unwrap().unwrap();
        assert_eq!(claim.uncompressed(), Some(7));
        for (blob, range) in [(1000, 928..1000), (20, 0..20)] {
            let Step::Footer(asked) = claim.begin(blob, &Limits::default()).unwrap() else {
                panic!("no footer is asked for");
            };
            assert_eq!(asked, range);
        }
    }

    #[test]
    fn positions_outside_of_the_layer_or_too_large_are_refused() {
        let limits = Limits {
            fetched: 50,
            table: 60,
            ..Limits::default()
        };
        for (position, outside) in [
            ("100:51:20:1", false),
            ("100:10:61:1", false),
            ("195:10:20:1", true),
            ("7:10:20:1", true),
            ("18446744073709551615:10:20:1", true),
        ] {
            let pairs = [(CHECKSUM[0], DIGEST), (POSITION[0], position)];
            let claim = claim(Compression::Zstd, &pairs).unwrap().unwrap();
            match claim.begin(200, &limits) {
                Err(Error::Table(_)) if outside => {}
                Err(Error::TooMuch { .. }) if !outside => {}
                other => panic!("{position}: {other:?}"),
            }
        }
    }

    #[test]
    fn annotations_that_say_something_else_are_refused() {
        for value in ["", "1:2:3", "1:2:3:2", "1:2:3:1:4", "-1:2:3:1", "a:2:3:1"] {
            let pairs = [(CHECKSUM[0], DIGEST), (POSITION[0], value)];
            let refused = claim(Compression::Zstd, &pairs);
            assert!(matches!(refused, Err(Error::Annotation { .. })), "{value}");
        }
        let refused = claim(Compression::Gzip, &[(TOC_DIGEST, "sha256:0")]);
        assert!(matches!(refused, Err(Error::Annotation { .. })));
    }
}
