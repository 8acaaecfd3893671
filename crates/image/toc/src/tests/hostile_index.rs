//! Corrupt indexes.

use serde_json::json;

use super::archive::content;
use super::layer::{Format, Writer, base64};
use super::ztoc::{self, Indexed as _};
use crate::{Damaged, Index, Limits};

fn indexes() -> Vec<Vec<u8>> {
    let mut writer = Writer::new(Format::EStargz);
    writer.file("d/f", &content(1, 9_000), 4096);
    writer.plain("symlink", "l", json!({"linkName": "x"}));
    writer.plain("fifo", "p", json!({"xattrs": {"user.x": base64(b"y")}}));
    let members = writer.finish().index(&Limits::default()).unwrap();
    let archive = ztoc::archive();
    let layer = super::layer::compress(false, &archive.tar);
    let spans = archive
        .parts(&layer, 100_000)
        .index(&Limits::default())
        .unwrap();
    vec![members.bytes().to_vec(), spans.bytes().to_vec()]
}

/// Calls all methods of an index.
pub(super) fn ask(index: &Index<Vec<u8>>) -> Result<(), Damaged> {
    for number in 0..index.nodes().min(1000) + 2 {
        let Some(node) = index.node(number)? else {
            continue;
        };
        index.target(&node)?;
        for xattr in index.xattrs(&node)?.take(1000) {
            xattr?;
        }
        for named in index.list(&node, 0).take(1000) {
            index.lookup(&node, named?.name)?;
        }
        for range in [0..u64::MAX, 5..6, u64::MAX - 1..u64::MAX] {
            for extent in index.extents(&node, range)?.take(1000) {
                extent?;
            }
        }
    }
    for number in 0..=index.chunks().min(4) {
        if let Some(chunk) = index.chunk(number)? {
            let length = chunk.range().end - chunk.range().start;
            drop(chunk.open(&vec![0; length.min(1000) as usize]));
        }
    }
    Ok(())
}

#[test]
fn an_index_that_is_cut_off_or_extended_is_not_opened() {
    for good in indexes() {
        Index::open(good.clone()).unwrap().check().unwrap();
        for length in [0, 7, 127, 128, 129, good.len() - 1] {
            assert_eq!(Index::open(&good[..length]).err(), Some(Damaged));
        }
        let more = [&good[..], &[0]].concat();
        assert_eq!(Index::open(more).err(), Some(Damaged));
    }
}

#[test]
fn every_harmed_byte_is_noticed() {
    for good in indexes() {
        let some = (256..good.len()).step_by(good.len() / 300);
        for at in (0..256).chain(some) {
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            match Index::open(bad) {
                Err(Damaged) => assert!(at < 128, "{at}"),
                Ok(index) => {
                    assert!(at >= 128, "{at}");
                    assert_eq!(index.check(), Err(Damaged), "{at}");
                }
            }
        }
    }
}

#[test]
fn a_harmed_index_answers_without_a_panic() {
    let mut noticed = 0;
    for good in indexes() {
        let mut bad = good.clone();
        for at in 128..good.len().min(2000) {
            for value in [0, 1, 0x7f, 0xff] {
                bad[at] = value;
                noticed += usize::from(ask(&Index::open(bad.clone()).unwrap()).is_err());
            }
            bad[at] = good[at];
        }
        // The complete file.
        for value in [0, 0xff] {
            let mut bad = good.clone();
            bad[128..].fill(value);
            noticed += usize::from(ask(&Index::open(bad).unwrap()).is_err());
        }
        ask(&Index::open(good).unwrap()).unwrap();
    }
    assert!(noticed > 100, "{noticed}");
}
