//! What is known of the signatures of images that are kept elsewhere: a file for each image.

use std::collections::{BTreeSet, HashSet};
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use orlop_disk::Outlives;
use serde::{Deserialize, Serialize};

use crate::store::{Evidence, Findings, Kept};
use crate::{Digest, Error, Result};

/// Images that something is known of; no engine has as many.
const MOST: usize = 4096;
/// Bytes of all files.
const MOST_BYTES: u64 = 512 << 20;
/// No file is longer.
const LARGEST: u64 = 64 << 20;
/// An image that is not there may be on its way for so long.
const ON_ITS_WAY: Duration = Duration::from_hours(1);
const END: &str = ".json";

/// A directory of such files.
#[derive(Debug, Clone)]
pub(super) struct Records {
    dir: PathBuf,
}

/// One file.
#[derive(Serialize, Deserialize)]
struct Record {
    /// The image that it is about.
    image: Digest,
    signatures: Kept,
}

impl Records {
    /// The records in a directory, which is made. Blocks.
    pub(super) fn open(dir: PathBuf) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        made.map_err(|error| Error::at("creating", &dir, error))?;
        orlop_disk::remove_drafts(&dir).map_err(|error| Error::at("cleaning up", &dir, error))?;
        Ok(Self { dir })
    }

    /// What is known of an image, if anything is. A file that can't be understood says nothing. Blocks.
    pub(super) fn read(&self, image: &Digest) -> Result<Option<Evidence>> {
        Ok(self.kept(image)?.map(Kept::together))
    }

    fn kept(&self, image: &Digest) -> Result<Option<Kept>> {
        let path = self.path(image);
        let text = match orlop_disk::read_file(&path, LARGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::at("reading", &path, error)),
        };
        match serde_json::from_slice::<Record>(&text) {
            Ok(record) if record.image == *image => Ok(Some(record.signatures)),
            Ok(_) => Ok(None),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "what is known of signatures can't be read");
                Ok(None)
            }
        }
    }

    /// Whether anything is known of an image. Blocks.
    pub(super) fn has(&self, image: &Digest) -> bool {
        self.path(image).exists()
    }

    /// Adds what was found out, durably. Blocks.
    pub(super) fn write(&self, image: &Digest, found: Findings) -> Result<()> {
        let mut signatures = self.kept(image)?.unwrap_or_default();
        let named = BTreeSet::from([found.repository.clone()]);
        signatures.add(found, &named);
        let image = *image;
        let text = serde_json::to_vec(&Record { image, signatures });
        let text = text.map_err(|error| Error::store("writing down signatures", error))?;
        if text.len() as u64 > LARGEST {
            let what = format!("what is known of the signatures of {image}");
            return Err(Error::too_large(what, format!("{LARGEST} bytes")));
        }
        let path = self.path(&image);
        let written = orlop_disk::write_file(&path, 0o600, Outlives::PowerCut, &text);
        written.map_err(|error| Error::at("writing", &path, error))
    }

    /// Forgets an image. Blocks.
    pub(super) fn remove(&self, image: &Digest) -> Result<()> {
        let path = self.path(image);
        orlop_disk::remove_file(&path).map_err(|error| Error::at("removing", &path, error))
    }

    /// Whether there is no room for more. Blocks.
    pub(super) fn are_full(&self) -> Result<bool> {
        let files = self.files()?;
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        Ok(files.len() >= MOST || bytes >= MOST_BYTES)
    }

    /// Forgets all images but these, and those that may be on their way. Blocks.
    pub(super) fn retain(&self, images: &HashSet<Digest>) -> Result<()> {
        self.retain_after(images, ON_ITS_WAY)
    }

    fn retain_after(&self, images: &HashSet<Digest>, age: Duration) -> Result<()> {
        let now = SystemTime::now();
        for file in self.files()? {
            // What was written in the future, by another clock, is old.
            let is_old = now
                .duration_since(file.written)
                .map_or(true, |its| its >= age);
            if is_old && !images.contains(&file.image) {
                self.remove(&file.image)?;
            }
        }
        Ok(())
    }

    fn files(&self) -> Result<Vec<File>> {
        let failed = |error| Error::at("listing", &self.dir, error);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Some(image) = image_of(&entry.path()) else {
                continue;
            };
            // It may be removed meanwhile.
            let Ok(found) = entry.metadata() else {
                continue;
            };
            files.push(File {
                image,
                bytes: found.len(),
                written: found.modified().map_err(failed)?,
            });
        }
        Ok(files)
    }

    fn path(&self, image: &Digest) -> PathBuf {
        self.dir
            .join(format!("{}-{}{END}", image.algorithm(), image.hex()))
    }
}

struct File {
    image: Digest,
    bytes: u64,
    written: SystemTime,
}

fn image_of(path: &Path) -> Option<Digest> {
    let name = path.file_name()?.to_str()?.strip_suffix(END)?;
    name.replacen('-', ":", 1).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Signature;

    fn found(signature: &str) -> Findings {
        let evidence = Evidence {
            manifests: vec![Digest::of(b"m")],
            signatures: vec![Signature {
                signature: signature.to_owned(),
                ..Signature::default()
            }],
            ..Evidence::default()
        };
        Findings {
            repository: "a.example/b".to_owned(),
            evidence,
            ..Findings::default()
        }
    }

    #[test]
    fn what_is_known_of_an_image_grows_outlives_the_process_and_goes_with_the_image() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("deep/signatures");
        let records = Records::open(dir.clone()).unwrap();
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        assert_eq!(records.read(&one).unwrap(), None);
        records.write(&one, found("a")).unwrap();
        records.write(&one, found("b")).unwrap();
        records.write(&two, found("c")).unwrap();
        std::fs::write(dir.join(".x.json.new"), "half").unwrap();
        let records = Records::open(dir.clone()).unwrap();
        assert!(!dir.join(".x.json.new").exists());
        let known = records.read(&one).unwrap().unwrap();
        let signatures = known.signatures.iter().map(|it| &*it.signature);
        assert_eq!(signatures.collect::<Vec<_>>(), ["b", "a"]);
        records.remove(&one).unwrap();
        records.remove(&one).unwrap();
        assert!(!records.has(&one) && records.has(&two));
    }

    #[test]
    fn a_file_that_is_torn_or_another_s_says_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let records = Records::open(scratch.path().to_owned()).unwrap();
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        records.write(&one, found("a")).unwrap();
        std::fs::copy(records.path(&one), records.path(&two)).unwrap();
        assert_eq!(records.read(&two).unwrap(), None, "it is about another");
        std::fs::write(records.path(&one), "{\"image\":").unwrap();
        assert_eq!(records.read(&one).unwrap(), None);
        records.write(&one, found("b")).unwrap();
        assert!(records.read(&one).unwrap().is_some(), "pulled anew");
        let endless = std::fs::File::create(records.path(&one)).unwrap();
        endless.set_len(LARGEST + 1).unwrap();
        records.read(&one).unwrap_err();
    }

    #[test]
    fn images_that_are_gone_are_forgotten_unless_they_may_be_on_their_way() {
        let scratch = tempfile::tempdir().unwrap();
        let records = Records::open(scratch.path().to_owned()).unwrap();
        let (here, gone) = (Digest::of(b"h"), Digest::of(b"g"));
        for image in [&here, &gone] {
            records.write(image, found("a")).unwrap();
        }
        let images = HashSet::from([here]);
        records.retain(&images).unwrap();
        assert!(records.has(&gone), "it is on its way");
        records.retain_after(&images, Duration::ZERO).unwrap();
        assert!(records.has(&here) && !records.has(&gone));
    }

    #[test]
    fn there_is_an_end_of_room() {
        let scratch = tempfile::tempdir().unwrap();
        let records = Records::open(scratch.path().to_owned()).unwrap();
        for number in 0..MOST {
            assert!(number % 1000 != 0 || !records.are_full().unwrap());
            let image = Digest::of(&number.to_be_bytes());
            std::fs::write(records.path(&image), "").unwrap();
        }
        assert!(records.are_full().unwrap());
    }
}
