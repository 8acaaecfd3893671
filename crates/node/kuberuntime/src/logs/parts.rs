//! The rotated parts of a log. Rotation compresses and removes them while they are read.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::vec::IntoIter;

use flate2::read::GzDecoder;
use orlop_fs::LogPlace;

/// How many parts are kept open ahead of the current one, so that parts that rotation removes can
/// still be read. Rotation leaves fewer than this.
const AHEAD: usize = 8;

const PACKED: &[u8] = b".gz";

/// Iterates over the parts of a log, the oldest first.
pub(super) struct Parts<'a> {
    place: &'a LogPlace,
    present: &'a File,
    names: IntoIter<OsString>,
    ahead: VecDeque<Box<dyn Read>>,
}

impl<'a> Parts<'a> {
    /// Opens the parts of a log. `present` was opened before: if it has been rotated since, it is
    /// skipped.
    pub(super) fn beside(place: &'a LogPlace, present: &'a File) -> io::Result<Self> {
        let mut parts = Self {
            place,
            present,
            names: names(place)?.into_iter(),
            ahead: VecDeque::new(),
        };
        parts.open_ahead()?;
        Ok(parts)
    }

    /// Returns the next part.
    pub(super) fn next(&mut self) -> io::Result<Option<Box<dyn Read>>> {
        let next = self.ahead.pop_front();
        self.open_ahead()?;
        Ok(next)
    }

    fn open_ahead(&mut self) -> io::Result<()> {
        while self.ahead.len() < AHEAD
            && let Some(name) = self.names.next()
        {
            self.ahead.extend(open(self.place, &name, self.present)?);
        }
        Ok(())
    }
}

/// Lists the parts, the oldest first, each by one name.
pub(super) fn names(place: &LogPlace) -> io::Result<Vec<OsString>> {
    let parts: BTreeSet<OsString> = place.parts()?.into_iter().collect();
    let is_packed_too = |name: &OsStr| parts.contains(&packed(name));
    let names = parts.iter().filter(|name| {
        // A part that is being compressed has both names for a moment.
        !name.as_encoded_bytes().ends_with(b".tmp") && !is_packed_too(name)
    });
    Ok(names.cloned().collect())
}

/// Opens a part; `None` if rotation has removed it, or if it is the present log itself.
pub(super) fn open(
    place: &LogPlace,
    name: &OsStr,
    present: &File,
) -> io::Result<Option<Box<dyn Read>>> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let mut is_packed = name.as_encoded_bytes().ends_with(PACKED);
    let mut opened = place.read_part(name);
    if !is_packed && opened.as_ref().is_err_and(is_gone) {
        // Rotation may have compressed it meanwhile.
        is_packed = true;
        opened = place.read_part(&packed(name));
    }
    let file = match opened {
        Err(error) if is_gone(&error) => return Ok(None),
        opened => opened?,
    };
    let (part, now) = (file.metadata()?, present.metadata()?);
    if (part.dev(), part.ino()) == (now.dev(), now.ino()) {
        return Ok(None);
    }
    Ok(Some(if is_packed {
        Box::new(GzDecoder::new(file))
    } else {
        Box::new(file)
    }))
}

fn packed(name: &OsStr) -> OsString {
    let mut packed = name.to_owned();
    packed.push(OsStr::new(".gz"));
    packed
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_log_that_becomes_a_part_after_it_was_opened_is_none_of_its_parts() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        fs::write(dir.path().join("0.log.1"), "old").unwrap();
        fs::write(&log, "present").unwrap();
        let place = LogPlace::find(&log).unwrap();
        let present = place.read("").unwrap();
        fs::rename(&log, dir.path().join("0.log.2")).unwrap();
        let mut parts = Parts::beside(&place, &present).unwrap();
        let mut text = String::new();
        while let Some(mut part) = parts.next().unwrap() {
            part.read_to_string(&mut text).unwrap();
        }
        assert_eq!(text, "old");
    }

    #[test]
    fn of_many_parts_few_are_open_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        for number in 0..50 {
            fs::write(dir.path().join(format!("0.log.{number:02}")), "x").unwrap();
        }
        fs::write(&log, "").unwrap();
        let place = LogPlace::find(&log).unwrap();
        let present = place.read("").unwrap();
        let mut parts = Parts::beside(&place, &present).unwrap();
        let mut count = 0;
        while parts.next().unwrap().is_some() {
            assert!(parts.ahead.len() <= AHEAD);
            count += 1;
        }
        assert_eq!(count, 50);
    }
}
