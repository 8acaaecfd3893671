//! Streaming JSON parser, entry by entry.

use std::fmt;
use std::io::{BufReader, Read};

use serde::Deserializer as _;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::content::{Blob, Chunks};
use super::entry::Raw;
use super::meter::{Meter, Metered};
use crate::index::write;
use crate::tree::{Is, Path, Tree};
use crate::{Error, Index, Limits, Result};

/// The only supported version.
const VERSION: u64 = 1;

/// Marker files in the root directory (eStargz), which are empty: everything before the first one is needed soon, or
/// nothing.
const PREFETCH: &str = ".prefetch.landmark";
const NO_PREFETCH: &str = ".no.prefetch.landmark";

/// Builds an index from JSON.
pub(crate) fn index(json: impl Read, blob: Blob, limits: &Limits) -> Result<Index<Vec<u8>>> {
    let meter = Meter::default();
    meter.reset();
    let mut table = Table {
        tree: Tree::new(limits),
        chunks: Chunks::new(blob, limits),
        limits,
        prioritized: 0,
        meter: meter.clone(),
        failed: None,
    };
    let metered = Metered {
        from: BufReader::new(json),
        meter,
    };
    let mut reader = serde_json::Deserializer::from_reader(metered);
    let read = reader
        .deserialize_map(&mut table)
        .and_then(|()| reader.end());
    if let Some(error) = table.failed {
        return Err(error);
    }
    read.map_err(Error::Json)?;
    table.chunks.end(&mut table.tree)?;
    let mut draft = table.tree.finish(blob.storage, blob.bytes)?;
    draft.chunks = table.chunks.finish();
    draft.prioritized = table.prioritized;
    write(draft)
}

/// The state of the parser.
struct Table<'l> {
    tree: Tree<'l>,
    chunks: Chunks<'l>,
    limits: &'l Limits,
    prioritized: u64,
    meter: Meter,
    /// The error that stopped the parser, unless it is a JSON error.
    failed: Option<Error>,
}

impl Table<'_> {
    fn add(&mut self, raw: &Raw) -> Result<()> {
        let bad = |problem| Error::entry(raw.name.as_bytes(), problem);
        if raw.is_chunk() {
            return self.chunks.add(raw.piece().map_err(bad)?);
        }
        self.chunks.end(&mut self.tree)?;
        let entry = raw.entry().map_err(bad)?;
        let Is::File { size } = entry.is else {
            self.tree.add(&entry)?;
            return Ok(());
        };
        let piece = raw.piece().map_err(bad)?;
        let path = Path::parse(entry.name, self.limits).map_err(bad)?;
        let prefetch = path.is_top(PREFETCH);
        let node = if prefetch || path.is_top(NO_PREFETCH) {
            None
        } else {
            self.tree.add(&entry)?
        };
        self.chunks.begin(&raw.name, node, size, piece)?;
        if prefetch {
            self.prioritized = piece.offset;
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for &mut Table<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of contents")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut version, mut entries) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "version" if version.is_none() => version = Some(map.next_value::<u64>()?),
                "entries" if entries.is_none() => {
                    entries = Some(map.next_value_seed(Entries(&mut *self))?);
                }
                "version" | "entries" => return Err(de::Error::custom("it has a duplicate field")),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if version != Some(VERSION) {
            return Err(de::Error::custom("its version is not 1"));
        }
        entries.ok_or_else(|| de::Error::missing_field("entries"))
    }
}

/// The list of entries.
struct Entries<'t, 'l>(&'t mut Table<'l>);

impl<'de> DeserializeSeed<'de> for Entries<'_, '_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(raw) = entries.next_element::<Raw>()? {
            self.0.meter.reset();
            if let Err(error) = self.0.add(&raw) {
                self.0.failed = Some(error);
                return Err(de::Error::custom("an entry was rejected"));
            }
        }
        Ok(())
    }
}
