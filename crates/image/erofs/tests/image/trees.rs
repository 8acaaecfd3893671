//! Whole trees, as the kernel and the reader find them.

use std::fs::File;

use orlop_erofs::read::{Limits, Reader};
use orlop_erofs::{Attributes, Kind, Summary};
use orlop_testkit::{machine, skip_unless};

use crate::kernel::Mounted;
use crate::model::{Expected, Model, attributes, path};
use crate::{random, reader};

fn judge(model: Model) -> (Expected, File, Summary) {
    let (expected, file, summary) = model.finish();
    let length = file.metadata().expect("look").len();
    assert_eq!(summary.bytes, length);
    assert_eq!(summary.inodes, expected.inodes());
    let read = Reader::open(&file).expect("open");
    let census = read.check(Limits::default()).expect("is sound");
    assert_eq!(census.inodes, expected.inodes());
    assert_eq!(census.entries, expected.paths.len() as u64 - 1);
    expected.compare(&reader::walk(&read));
    (expected, file, summary)
}

fn file() -> File {
    tempfile::tempfile_in("/var/tmp").expect("make a file")
}

#[test]
fn random_trees_are_found_as_they_were_written() {
    for seed in 0..12 {
        let (expected, file, _) = judge(random::tree(seed, 500, file()));
        if machine::is_root().is_ok() {
            expected.compare(&Mounted::new(&file).walk());
        }
    }
    skip_unless!(machine::is_root());
}

#[test]
fn the_same_entries_are_the_same_bytes() {
    let mut images = (0..2).map(|_| {
        let (_, file, _) = random::tree(7, 400, file()).finish();
        let mut bytes = vec![0; file.metadata().expect("look").len() as usize];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).expect("read");
        bytes
    });
    assert!(images.next() == images.next());
}

#[test]
fn an_empty_image_has_a_root() {
    skip_unless!(machine::is_root());
    let (expected, file, summary) = judge(Model::new(file()));
    assert_eq!(summary.bytes, 4096);
    expected.compare(&Mounted::new(&file).walk());
}

#[test]
fn names_before_and_between_the_dots_are_found() {
    skip_unless!(machine::is_root());
    let mut model = Model::new(file());
    model.directory(&path("d"), attributes(0o755));
    for parent in ["", "d/"] {
        for name in ["!", "-", ".-", ".!a", "...", "..a", ".a", "0", "~"] {
            let at = path(&format!("{parent}{name}"));
            model.file(
                &at,
                attributes(0o644),
                name.as_bytes(),
                &[(0, name.len() as u64)],
            );
        }
    }
    let (expected, file, _) = judge(model);
    expected.compare(&Mounted::new(&file).walk());
}

#[test]
fn directories_span_blocks() {
    skip_unless!(machine::is_root());
    let mut model = Model::new(file());
    for (directory, count) in [("small", 150), ("large", 5000)] {
        model.directory(&path(directory), attributes(0o755));
        for number in 0..count {
            let at = path(&format!(
                "{directory}/{number}-{}",
                "n".repeat(number % 180)
            ));
            match number % 3 {
                0 => model.directory(&at, attributes(0o700)),
                1 => model.fifo(&at, attributes(0o600)),
                _ => model.file(&at, attributes(0o644), b"x", &[(0, 1)]),
            }
        }
    }
    let (expected, file, _) = judge(model);
    expected.compare(&Mounted::new(&file).walk());
}

#[test]
fn the_root_may_have_more_than_fits_behind_the_superblock() {
    skip_unless!(machine::is_root());
    let mut model = Model::new(file());
    let mut root = attributes(0o1777);
    for number in 0..20 {
        // Longer than what others share.
        let name = format!("user.{number}").into_bytes();
        root.xattrs.insert(name, vec![number as u8; 5000]);
    }
    model.directory(&Vec::new(), root);
    for number in 0..400 {
        model.directory(&path(&format!("directory-{number}")), attributes(0o755));
    }
    let (expected, file, _) = judge(model);
    expected.compare(&Mounted::new(&file).walk());
}

#[test]
fn access_lists_and_capabilities_are_kept() {
    skip_unless!(machine::is_root());
    let mut model = Model::new(file());
    let entry = |tag: u16, permissions: u16, id: u32| {
        [
            &tag.to_le_bytes()[..],
            &permissions.to_le_bytes(),
            &id.to_le_bytes(),
        ]
        .concat()
    };
    let list = [
        2_u32.to_le_bytes().to_vec(),
        entry(0x01, 6, u32::MAX),
        entry(0x02, 4, 1000),
        entry(0x04, 4, u32::MAX),
        entry(0x10, 4, u32::MAX),
        entry(0x20, 0, u32::MAX),
    ]
    .concat();
    let capability = [
        0x0200_0001_u32.to_le_bytes(),
        0x400_u32.to_le_bytes(),
        [0; 4],
        [0; 4],
        [0; 4],
    ]
    .concat();
    let with = |mode, pairs: &[(&str, &[u8])]| {
        let pairs = pairs.iter();
        let xattrs = pairs.map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec()));
        Attributes {
            xattrs: xattrs.collect(),
            ..attributes(mode)
        }
    };
    let (access, default) = ("system.posix_acl_access", "system.posix_acl_default");
    let both = with(0o640, &[(access, &list), (default, &list)]);
    model.directory(&path("d"), both);
    let of_file = with(
        0o640,
        &[(access, &list), ("security.capability", &capability)],
    );
    model.file(&path("d/f"), of_file, b"#!", &[(0, 2)]);
    let (expected, file, _) = judge(model);
    expected.compare(&Mounted::new(&file).walk());
}

#[test]
fn hard_links_outlive_the_name_they_came_from() {
    skip_unless!(machine::is_root());
    let mut model = Model::new(file());
    model.directory(&path("a"), attributes(0o755));
    model.file(&path("a/f"), attributes(0o644), b"content", &[(0, 7)]);
    model.link(&path("a/f"), &path("g"));
    model.link(&path("g"), &path("h"));
    model.link(&path("g"), &path("g"));
    model.file(&path("a"), attributes(0o600), b"now a file", &[(0, 10)]);
    assert_eq!(model.kind_at(&path("a/f")), None);
    assert_eq!(model.kind_at(&path("a")), Some(Kind::File));
    let (expected, file, _) = judge(model);
    assert_eq!(expected.paths[&path("h")].links, 2);
    expected.compare(&Mounted::new(&file).walk());
}
