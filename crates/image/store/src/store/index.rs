//! The durable index (redb), the leases in separate files, and their copy in memory, which serves all reads of records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::leases::Leases;
use super::{ImageRecord, LayerRecord, LeaseRecord};
use crate::document::Document;
use crate::evidence::{Findings, Kept};
use crate::{Digest, Error, Result};

type Table = TableDefinition<'static, &'static str, &'static [u8]>;
const IMAGES: Table = TableDefinition::new("images");
const LAYERS: Table = TableDefinition::new("layers");
/// Written by earlier versions; leases are files now.
const LEASES: Table = TableDefinition::new("leases");
const DOCUMENTS: Table = TableDefinition::new("documents");
/// Keyed by image; removed together with the image.
const EVIDENCE: Table = TableDefinition::new("evidence");

/// The index is small; redb's default cache of a gigabyte is for large databases.
const CACHE_BYTES: usize = 2 << 20;

/// All content of the index except the documents and the evidence.
#[derive(Debug, Default, Clone)]
pub(crate) struct State {
    pub(crate) images: BTreeMap<Digest, ImageRecord>,
    pub(crate) layers: BTreeMap<Digest, LayerRecord>,
    pub(crate) leases: BTreeMap<String, LeaseRecord>,
}

/// Changes that are applied together: `Some` inserts, `None` deletes.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) images: Vec<(Digest, Option<ImageRecord>)>,
    pub(crate) layers: Vec<(Digest, Option<LayerRecord>)>,
    pub(crate) leases: Vec<(String, Option<LeaseRecord>)>,
    pub(crate) documents: Vec<(Digest, Option<Document>)>,
    /// Added to the stored findings.
    pub(crate) evidence: Vec<(Digest, Findings, BTreeSet<String>)>,
}

impl Change {
    fn is_empty(&self) -> bool {
        self.leases.is_empty() && !self.is_for_the_database()
    }

    fn is_for_the_database(&self) -> bool {
        !(self.images.is_empty()
            && self.layers.is_empty()
            && self.documents.is_empty()
            && self.evidence.is_empty())
    }
}

pub(super) struct Index {
    path: PathBuf,
    /// Held while a change is decided and written, so that changes are serialized. `None` after a disk error, because
    /// redb then accepts no writes until the database is opened again.
    database: Mutex<Option<Database>>,
    leases: Leases,
    state: RwLock<State>,
}

impl Index {
    pub(super) fn open(path: &Path, leases: PathBuf) -> Result<Self> {
        let database = open_database(path)?;
        let failed = |error| Error::store(format!("reading {}", unreadable(path)), error);
        let mut state = load(&database).map_err(failed)?;
        let (leases, found) = Leases::open(leases)?;
        if !state.leases.is_empty() {
            // An earlier version stored leases in the index.
            for (owner, record) in &state.leases {
                leases.put(owner, Some(record))?;
            }
            forget_leases(&database).map_err(failed)?;
        }
        state.leases.extend(found);
        Ok(Self {
            path: path.to_owned(),
            database: Mutex::new(Some(database)),
            leases,
            state: RwLock::new(state),
        })
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    /// Lets `decide` read the state and choose the changes. Writes them durably, then makes them visible.
    pub(super) fn update<T>(
        &self,
        decide: impl FnOnce(&State, &mut Change) -> Result<T>,
    ) -> Result<T> {
        let mut slot = self.database.lock();
        self.opened(&mut slot)?;
        let mut change = Change::default();
        let result = decide(&self.state(), &mut change)?;
        if change.is_empty() {
            return Ok(result);
        }
        for (owner, record) in &change.leases {
            self.leases.put(owner, record.as_ref())?;
        }
        if change.is_for_the_database() {
            let written = self.using(&mut slot, |database| write(database, &change))?;
            written.map_err(|error| match error {
                redb::Error::Io(error) => Error::at("writing the image index", &self.path, error),
                error => {
                    let doing = format!("writing the image index {}", self.path.display());
                    Error::store(doing, error)
                }
            })?;
        }
        let mut state = self.state.write();
        for (id, record) in change.images {
            put(&mut state.images, id, record);
        }
        for (key, record) in change.layers {
            put(&mut state.layers, key, record);
        }
        for (owner, record) in change.leases {
            put(&mut state.leases, owner, record);
        }
        Ok(result)
    }

    /// Returns a manifest, index or configuration.
    pub(super) fn document(&self, digest: &Digest) -> Result<Option<Document>> {
        let read = |database: &Database| -> Result<Option<Document>, redb::Error> {
            let transaction = database.begin_read()?;
            let table = transaction.open_table(DOCUMENTS)?;
            let found = table.get(digest.to_string().as_str())?;
            Ok(found.map(|bytes| Document {
                digest: *digest,
                bytes: bytes.value().into(),
            }))
        };
        let mut slot = self.database.lock();
        let found = self.using(&mut slot, read)?;
        found.map_err(|error| Error::store(format!("reading document {digest}"), error))
    }

    /// Returns the stored findings about an image's signatures.
    pub(super) fn evidence(&self, image: &Digest) -> Result<Kept> {
        let read = |database: &Database| -> Result<Option<Kept>, redb::Error> {
            let transaction = database.begin_read()?;
            let table = transaction.open_table(EVIDENCE)?;
            let found = table.get(image.to_string().as_str())?;
            Ok(found.and_then(|text| parse_evidence(text.value())))
        };
        let mut slot = self.database.lock();
        let found = self
            .using(&mut slot, read)?
            .map_err(|error| Error::store(format!("reading signatures of {image}"), error));
        Ok(found?.unwrap_or_default())
    }

    /// Returns whether a layer is in the index. Reads the index from disk again if the last access failed.
    pub(super) fn knows(&self, layer: &Digest) -> Result<bool> {
        let mut slot = self.database.lock();
        self.opened(&mut slot)?;
        Ok(self.state().layers.contains_key(layer))
    }

    /// Runs work on the database, and closes the database after an I/O error.
    fn using<T>(
        &self,
        slot: &mut Option<Database>,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<Result<T, redb::Error>> {
        let done = work(self.opened(slot)?);
        if let Err(error @ (redb::Error::Io(_) | redb::Error::PreviousIo)) = &done {
            tracing::warn!(%error, "cannot access the image index; the next access opens it again");
            *slot = None;
        }
        Ok(done)
    }

    /// Opens the database if it is closed, and replaces the state in memory with its content.
    fn opened<'a>(&self, slot: &'a mut Option<Database>) -> Result<&'a Database> {
        let database = if let Some(database) = slot.take() {
            database
        } else {
            let database = open_database(&self.path)?;
            let found = load(&database).map_err(|error| {
                Error::store(format!("reading {}", unreadable(&self.path)), error)
            })?;
            let mut state = self.state.write();
            state.images = found.images;
            state.layers = found.layers;
            database
        };
        Ok(slot.insert(database))
    }
}

fn open_database(path: &Path) -> Result<Database> {
    let opened = Database::builder().set_cache_size(CACHE_BYTES).create(path);
    opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => {
            Error::Busy(path.parent().unwrap_or(path).display().to_string())
        }
        error => Error::store(format!("opening {}", unreadable(path)), error),
    })
}

/// Describes the index for errors. Containers may still use the layers of a lost index, so the administrator must
/// decide what to do.
fn unreadable(path: &Path) -> String {
    format!(
        "the image index {} (if it is damaged, move it to another directory; layers are found \
         again, but images must be pulled again)",
        path.display()
    )
}

/// Parses evidence. Evidence of another version is ignored, so that the image must be pulled again.
fn parse_evidence(text: &[u8]) -> Option<Kept> {
    serde_json::from_slice(text).ok()
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

fn load(database: &Database) -> Result<State, redb::Error> {
    let transaction = database.begin_write()?;
    let state = State {
        images: read_all(&transaction, IMAGES, |key| key.parse().ok())?,
        layers: read_all(&transaction, LAYERS, |key| key.parse().ok())?,
        leases: read_all(&transaction, LEASES, |key| Some(key.to_owned()))?,
    };
    transaction.open_table(DOCUMENTS)?;
    transaction.open_table(EVIDENCE)?;
    transaction.commit()?;
    Ok(state)
}

fn read_all<K: Ord, V: DeserializeOwned>(
    transaction: &redb::WriteTransaction,
    table: Table,
    parse_key: impl Fn(&str) -> Option<K>,
) -> Result<BTreeMap<K, V>, redb::Error> {
    let mut all = BTreeMap::new();
    for row in transaction.open_table(table)?.iter()? {
        let (key, value) = row?;
        let parsed = (
            parse_key(key.value()),
            serde_json::from_slice(value.value()),
        );
        if let (Some(key), Ok(value)) = parsed {
            all.insert(key, value);
        } else {
            // Written by another version: its layers are garbage collected, and its images pulled again.
            tracing::warn!(
                key = key.value(),
                "ignoring a record of the image index that cannot be read"
            );
        }
    }
    Ok(all)
}

fn forget_leases(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.delete_table(LEASES)?;
    transaction.commit()?;
    Ok(())
}

fn write(database: &Database, change: &Change) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    write_rows(&transaction, IMAGES, &change.images)?;
    write_rows(&transaction, LAYERS, &change.layers)?;
    {
        let mut table = transaction.open_table(DOCUMENTS)?;
        for (digest, document) in &change.documents {
            let key = digest.to_string();
            match document {
                Some(document) => drop(table.insert(key.as_str(), &*document.bytes)?),
                None => drop(table.remove(key.as_str())?),
            }
        }
    }
    write_evidence(&transaction, change)?;
    transaction.commit()?;
    Ok(())
}

fn write_evidence(
    transaction: &redb::WriteTransaction,
    change: &Change,
) -> Result<(), redb::Error> {
    let removed = change.images.iter().filter(|(_, record)| record.is_none());
    let removed: Vec<String> = removed.map(|(image, _)| image.to_string()).collect();
    if removed.is_empty() && change.evidence.is_empty() {
        return Ok(());
    }
    let mut table = transaction.open_table(EVIDENCE)?;
    for key in removed {
        table.remove(key.as_str())?;
    }
    for (image, found, named) in &change.evidence {
        let key = image.to_string();
        let older = table.get(key.as_str())?;
        let older = older.and_then(|text| parse_evidence(text.value()));
        let mut kept = older.unwrap_or_default();
        kept.add(found.clone(), named);
        table.insert(key.as_str(), &encoded(&kept)?[..])?;
    }
    Ok(())
}

fn write_rows<K: ToString, V: Serialize>(
    transaction: &redb::WriteTransaction,
    table: Table,
    rows: &[(K, Option<V>)],
) -> Result<(), redb::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = transaction.open_table(table)?;
    for (key, value) in rows {
        let key = key.to_string();
        match value {
            Some(value) => {
                table.insert(key.as_str(), &encoded(value)?[..])?;
            }
            None => drop(table.remove(key.as_str())?),
        }
    }
    Ok(())
}

/// Encodes a record as JSON. Plain structs with string keys always can be encoded.
fn encoded(value: &impl Serialize) -> Result<Vec<u8>, redb::Error> {
    serde_json::to_vec(value).map_err(|error| redb::Error::Io(std::io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write as _;
    use std::process::Command;

    use orlop_testkit::{Scratch, machine, skip_unless};

    use super::*;

    fn document(byte: u8) -> Document {
        let bytes = vec![byte; 1 << 20];
        Document {
            digest: Digest::of(&bytes),
            bytes: bytes.into(),
        }
    }

    fn put(index: &Index, document: &Document) -> Result<()> {
        index.update(|_, change| {
            change
                .documents
                .push((document.digest, Some(document.clone())));
            Ok(())
        })
    }

    #[test]
    fn a_disk_that_was_full_is_written_to_again() {
        skip_unless!(machine::is_root());
        let scratch = Scratch::new();
        let disk = scratch.subdir("small");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=32m", "small"])
            .arg(&disk)
            .status();
        assert!(mount.unwrap().success());
        let index = Index::open(&disk.join("index.redb"), disk.join("leases")).unwrap();
        let kept = document(1);
        put(&index, &kept).unwrap();
        let mut filler = File::create(disk.join("filler")).unwrap();
        while filler.write_all(&[1; 4096]).is_ok() {}
        // Documents that fit into the database's allocated space are still accepted.
        let refused = (2..20).find_map(|byte| put(&index, &document(byte)).err());
        let refused = refused.expect("a full disk takes no documents").to_string();
        assert!(refused.contains("writing the image index"), "{refused}");
        assert!(
            put(&index, &document(20)).is_err(),
            "there is no more room than before"
        );
        drop(filler);
        fs::remove_file(disk.join("filler")).unwrap();
        let late = document(21);
        put(&index, &late).unwrap();
        for wanted in [kept, late] {
            let found = index.document(&wanted.digest).unwrap();
            assert_eq!(found.map(|found| found.bytes), Some(wanted.bytes));
        }
    }
}
