//! Files with holes, and large ones.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use orlop_erofs::read::{Limits, Reader};
use orlop_erofs::{Error, Image, Options};
use orlop_testkit::{machine, skip_unless};

use crate::kernel::Mounted;
use crate::model::{attributes, path};
use crate::random::Random;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;

/// Writes one file of parts that begin at these places, and looks for them.
fn write_and_look(size: u64, offsets: &[u64]) -> u64 {
    let file = tempfile::tempfile_in("/var/tmp").expect("make a file");
    let mut image =
        Image::create(file.try_clone().expect("clone"), Options::default()).expect("create");
    let mut writer = image.file(&[b"f"], attributes(0o644), size).expect("begin");
    let mut random = Random(size);
    let parts: Vec<(u64, Vec<u8>)> = offsets
        .iter()
        .map(|offset| (*offset, random.bytes((size - offset).min(5000) as usize)))
        .collect();
    for (offset, part) in &parts {
        writer.write_at(*offset, part).expect("write");
    }
    writer.finish().expect("finish the file");
    image.finish().expect("finish");

    let reader = Reader::open(&file).expect("open");
    reader.check(Limits::default()).expect("is sound");
    let inode = reader.find(&[b"f"]).expect("find").expect("is there");
    assert_eq!(inode.size(), size);
    let mounted = Mounted::new(&file);
    let by_kernel = File::open(mounted.path(&path("f"))).expect("open");
    assert_eq!(by_kernel.metadata().expect("look").len(), size);
    for (offset, part) in &parts {
        // What is around a part are zeros, or others.
        let from = offset.saturating_sub(9000);
        let mut expected = vec![0; (offset + 14_000).min(size).saturating_sub(from) as usize];
        for (other, bytes) in &parts {
            for (at, byte) in (*other..).zip(bytes) {
                if let Some(place) = at.checked_sub(from)
                    && let Some(place) = expected.get_mut(place as usize)
                {
                    *place = *byte;
                }
            }
        }
        assert!(expected[(offset - from) as usize..].starts_with(part));
        let mut found = vec![1; expected.len()];
        by_kernel.read_exact_at(&mut found, from).expect("read");
        assert!(
            found == expected,
            "the kernel reads another part at {offset}"
        );
        found.fill(1);
        assert_eq!(
            reader.read(&inode, from, &mut found).expect("read"),
            found.len()
        );
        assert!(
            found == expected,
            "the reader reads another part at {offset}"
        );
    }
    file.metadata().expect("look").blocks() * 512
}

#[test]
fn holes_read_as_zeros_and_take_no_room() {
    skip_unless!(machine::is_root());
    let at_both_ends = write_and_look(
        100 * 1024 * KIB,
        &[0, 50 * 1024 * KIB + 17, 100 * 1024 * KIB - 9],
    );
    assert!(at_both_ends < 1024 * KIB, "{at_both_ends} bytes are taken");
    let none = write_and_look(100 * 1024 * KIB, &[]);
    assert!(none < 1024 * KIB, "{none} bytes are taken");
}

#[test]
fn files_are_larger_than_32_bits_can_say() {
    skip_unless!(machine::is_root());
    write_and_look(5 * GIB + 3, &[7, 4 * GIB - 2500, 5 * GIB - 4997]);
    // One that no image could have in whole, with larger chunks.
    let taken = write_and_look(
        900 * 1024 * GIB,
        &[3, 4 * GIB + 1, 700 * 1024 * GIB, 900 * 1024 * GIB - 1],
    );
    assert!(taken < 1024 * KIB, "{taken} bytes are taken");
}

#[test]
fn parts_come_in_order_and_within_the_file() {
    let file = tempfile::tempfile().expect("make a file");
    let mut image = Image::create(file, Options::default()).expect("create");
    for size in [1000, 10_000] {
        let mut writer = image.file(&[b"f"], attributes(0o644), size).expect("begin");
        writer.write_at(10, b"twelve bytes").expect("write");
        for (offset, bytes) in [
            (21, &b"1"[..]),
            (0, b"1"),
            (size - 1, b"12"),
            (u64::MAX, b"1"),
        ] {
            let refused = writer.write_at(offset, bytes);
            assert!(
                matches!(refused, Err(Error::Order { written: 22, .. })),
                "{refused:?}"
            );
        }
        writer.write_at(22, b"more").expect("write");
    }
    assert_eq!(image.kind_at(&[b"f"]), None, "none was finished");
    assert!(matches!(
        image.file(&[b"f"], attributes(0o644), 1 << 57),
        Err(Error::FileSize(_))
    ));
}

#[test]
fn a_content_of_many_pieces_is_whole() {
    skip_unless!(machine::is_root());
    let file = tempfile::tempfile_in("/var/tmp").expect("make a file");
    let mut image =
        Image::create(file.try_clone().expect("clone"), Options::default()).expect("create");
    let content = Random(5).bytes(7_000_001);
    let mut writer = image
        .file(&[b"f"], attributes(0o644), content.len() as u64)
        .expect("begin");
    for (index, piece) in content.chunks(777).enumerate() {
        writer.write_at(index as u64 * 777, piece).expect("write");
    }
    writer.finish().expect("finish the file");
    let summary = image.finish().expect("finish");
    assert_eq!(summary.content_bytes, 7_000_001);
    let mounted = Mounted::new(&file);
    assert!(fs::read(mounted.path(&path("f"))).expect("read") == content);
}
