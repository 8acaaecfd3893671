//! Stored signature findings about images of another program, one file per image.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_fs::Outlives;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, Findings, Kept};
use crate::{Digest, Error, Result};

/// Maximum number of records, more than the images of any engine.
const MOST: usize = 4096;
/// Maximum size of all files.
const MOST_BYTES: u64 = 512 << 20;
/// Maximum size of a file.
const LARGEST: u64 = 64 << 20;
const END: &str = ".json";

/// A directory of records. Clones share the lock.
#[derive(Debug, Clone)]
pub(super) struct Records {
    dir: Arc<Path>,
    /// Held from reading a file until it is written again.
    changing: Arc<Mutex<()>>,
}

/// One file.
#[derive(Serialize, Deserialize)]
struct Record {
    /// The image.
    image: Digest,
    signatures: Kept,
}

impl Records {
    /// Opens the records in a directory, and creates the directory. Blocks.
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| Error::at("creating", dir, error))?;
        orlop_fs::remove_drafts(dir).map_err(|error| Error::at("cleaning up", dir, error))?;
        Ok(Self {
            dir: dir.into(),
            changing: Arc::default(),
        })
    }

    /// Returns the record of an image, if there is a valid one. Ignores a file that cannot be parsed. Blocks.
    pub(super) fn read(&self, image: &Digest) -> Result<Option<Evidence>> {
        Ok(self.kept(image)?.map(Kept::together))
    }

    fn kept(&self, image: &Digest) -> Result<Option<Kept>> {
        let path = self.path(image);
        let text = match orlop_fs::read_file(&path, LARGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::at("reading", &path, error)),
        };
        match serde_json::from_slice::<Record>(&text) {
            Ok(record) if record.image == *image => Ok(Some(record.signatures)),
            Ok(_) => Ok(None),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot read stored signatures");
                Ok(None)
            }
        }
    }

    /// Returns whether an image has a record. Blocks.
    pub(super) fn has(&self, image: &Digest) -> bool {
        self.path(image).exists()
    }

    /// Adds findings durably. `named` are the repositories of the image's names. Blocks.
    pub(super) fn add(
        &self,
        image: &Digest,
        found: Findings,
        named: &BTreeSet<String>,
    ) -> Result<()> {
        let _alone = self.changing.lock();
        let known = self.kept(image)?;
        let mut signatures = known.clone().unwrap_or_default();
        signatures.add(found, named);
        if known.as_ref() == Some(&signatures) {
            return Ok(());
        }
        self.write(image, signatures)
    }

    /// Stores the findings if the image has no record yet. Returns whether it had none. Blocks.
    pub(super) fn begin(&self, image: &Digest, found: Findings) -> Result<bool> {
        let _alone = self.changing.lock();
        if self.has(image) {
            return Ok(false);
        }
        let named = BTreeSet::from([found.repository.clone()]);
        let mut signatures = Kept::default();
        signatures.add(found, &named);
        self.write(image, signatures)?;
        Ok(true)
    }

    fn write(&self, image: &Digest, signatures: Kept) -> Result<()> {
        let image = *image;
        let text = serde_json::to_vec(&Record { image, signatures });
        let text = text.map_err(|error| Error::store("storing signatures", error))?;
        if text.len() as u64 > LARGEST {
            let what = format!("the stored record of the signatures of {image}");
            return Err(Error::too_large(what, format!("{LARGEST} bytes")));
        }
        let path = self.path(&image);
        let written = orlop_fs::write_file(&path, 0o600, Outlives::PowerCut, &text);
        written.map_err(|error| Error::at("writing", &path, error))
    }

    /// Removes the record of an image if `may_be` returns true. No record is written meanwhile. Blocks.
    pub(super) fn remove_if(&self, image: &Digest, may_be: impl FnOnce() -> bool) -> Result<()> {
        let _alone = self.changing.lock();
        if !may_be() {
            return Ok(());
        }
        let path = self.path(image);
        orlop_fs::remove_file(&path).map_err(|error| Error::at("removing", &path, error))
    }

    /// Returns whether the limits are reached. Blocks.
    pub(super) fn are_full(&self) -> Result<bool> {
        let files = self.files()?;
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        Ok(files.len() >= MOST || bytes >= MOST_BYTES)
    }

    /// Returns all images with a record. Blocks.
    pub(super) fn images(&self) -> Result<Vec<Digest>> {
        Ok(self.files()?.into_iter().map(|file| file.image).collect())
    }

    fn files(&self) -> Result<Vec<File>> {
        let failed = |error| Error::at("listing", &self.dir, error);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Some(image) = image_of(&entry.path()) else {
                continue;
            };
            // The file may be removed meanwhile.
            let Ok(found) = entry.metadata() else {
                continue;
            };
            files.push(File {
                image,
                bytes: found.len(),
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
}

fn image_of(path: &Path) -> Option<Digest> {
    let name = path.file_name()?.to_str()?.strip_suffix(END)?;
    name.replacen('-', ":", 1).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Signature;

    fn found(signature: &str) -> Findings {
        found_in("a.example/b", signature)
    }

    fn found_in(repository: &str, signature: &str) -> Findings {
        let evidence = Evidence {
            manifests: vec![Digest::of(b"m")],
            signatures: vec![Signature {
                signature: signature.to_owned(),
                ..Signature::default()
            }],
            ..Evidence::default()
        };
        Findings {
            repository: repository.to_owned(),
            evidence,
            ..Findings::default()
        }
    }

    fn named(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn signatures(records: &Records, image: &Digest) -> Vec<String> {
        let known = records.read(image).unwrap().unwrap();
        known
            .signatures
            .into_iter()
            .map(|it| it.signature)
            .collect()
    }

    #[test]
    fn what_is_known_of_an_image_grows_outlives_the_process_and_goes_with_the_image() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("deep/signatures");
        let records = Records::open(&dir).unwrap();
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        assert_eq!(records.read(&one).unwrap(), None);
        assert!(records.begin(&one, found("a")).unwrap());
        assert!(!records.begin(&one, found("b")).unwrap(), "it is known");
        assert_eq!(signatures(&records, &one), ["a"]);
        let own = named(&["a.example/b"]);
        records.add(&one, found("b"), &own).unwrap();
        records.add(&two, found("c"), &own).unwrap();
        std::fs::write(dir.join(".x.json.new"), "half").unwrap();
        let records = Records::open(&dir).unwrap();
        assert!(!dir.join(".x.json.new").exists());
        assert_eq!(signatures(&records, &one), ["b", "a"]);
        records.remove_if(&two, || false).unwrap();
        records.remove_if(&one, || true).unwrap();
        records.remove_if(&one, || true).unwrap();
        assert!(!records.has(&one) && records.has(&two));
    }

    #[test]
    fn pulls_at_once_of_one_image_by_many_names_lose_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let records = Records::open(scratch.path()).unwrap();
        let image = Digest::of(b"1");
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (records, start) = (records.clone(), &start);
                scope.spawn(move || {
                    let repository = format!("a.example/{number}");
                    let found = found_in(&repository, &number.to_string());
                    start.wait();
                    records.add(&image, found, &named(&[&repository])).unwrap();
                });
            }
        });
        let mut known = signatures(&records, &image);
        known.sort();
        assert_eq!(known, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    }

    #[test]
    fn repositories_that_an_image_has_no_name_of_take_no_room_of_those_that_it_has() {
        let scratch = tempfile::tempdir().unwrap();
        let records = Records::open(scratch.path()).unwrap();
        let image = Digest::of(b"1");
        let (own, others) = (found_in("a.example/own", "own"), "b.example/other");
        records.begin(&image, own).unwrap();
        for number in 0..40 {
            let found = found_in(&format!("{others}-{number}"), &format!("{number}"));
            let named = named(&["a.example/own"]);
            records.add(&image, found, &named).unwrap();
        }
        assert!(signatures(&records, &image).contains(&"own".to_owned()));
    }

    #[test]
    fn a_file_that_is_torn_or_another_s_says_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let records = Records::open(scratch.path()).unwrap();
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        records.begin(&one, found("a")).unwrap();
        std::fs::copy(records.path(&one), records.path(&two)).unwrap();
        assert_eq!(records.read(&two).unwrap(), None, "it is about another");
        std::fs::write(records.path(&one), "{\"image\":").unwrap();
        assert_eq!(records.read(&one).unwrap(), None);
        let own = named(&["a.example/b"]);
        records.add(&one, found("b"), &own).unwrap();
        assert!(records.read(&one).unwrap().is_some(), "pulled anew");
        let endless = std::fs::File::create(records.path(&one)).unwrap();
        endless.set_len(LARGEST + 1).unwrap();
        records.read(&one).unwrap_err();
    }

    #[test]
    fn there_is_an_end_of_room() {
        let scratch = tempfile::tempdir().unwrap();
        let records = Records::open(scratch.path()).unwrap();
        for number in 0..MOST {
            assert!(number % 1000 != 0 || !records.are_full().unwrap());
            let image = Digest::of(&number.to_be_bytes());
            std::fs::write(records.path(&image), "").unwrap();
        }
        assert!(records.are_full().unwrap());
    }
}
