//! Images with bytes that are not as they were: whatever is in them, the reader comes to an end.

use std::os::unix::fs::FileExt as _;
use std::sync::LazyLock;

use orlop_erofs::Kind;
use orlop_erofs::read::{Error, Limits, Reader, Result};
use proptest::prelude::*;

use crate::model::{attributes, path};
use crate::random;

/// A small one with all there is, without its checksum.
static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let file = tempfile::tempfile().expect("make a file");
    let mut model = random::tree(3, 40, file);
    for number in 0..200 {
        model.directory(&path(&format!("directory-{number}")), attributes(0o755));
    }
    let mut sparse = vec![0; 50_000];
    sparse[40_000..].fill(1);
    model.file(
        &path("sparse"),
        attributes(0o644),
        &sparse,
        &[(40_000, 50_000)],
    );
    let (_, file, _) = model.finish();
    let mut bytes = vec![0; file.metadata().expect("look").len() as usize];
    file.read_exact_at(&mut bytes, 0).expect("read");
    bytes[1024 + 8] &= !1;
    bytes
});

/// Places where structures are: the superblock, and the blocks that are not contents of files.
static METADATA: LazyLock<Vec<usize>> = LazyLock::new(|| {
    let reader = Reader::open(&*IMAGE).expect("open");
    let mut places: Vec<usize> = (1024..1280).collect();
    let mut pending = vec![reader.root().expect("root")];
    while let Some(inode) = pending.pop() {
        let begin = inode.nid() as usize * 32;
        places.extend(begin..(begin + 96).min(IMAGE.len()));
        if inode.kind() == Kind::Directory {
            for entry in reader.entries(&inode).expect("list") {
                let entry = entry.expect("read an entry");
                if !matches!(&entry.name[..], b"." | b"..") {
                    pending.push(reader.inode(entry.nid).expect("read"));
                }
            }
        }
    }
    places
});

/// Reads all that can be reached, up to a limit.
fn read_all(image: &Vec<u8>) -> Result<()> {
    let reader = Reader::open(image)?;
    let limits = Limits {
        entries: 1000,
        chunks: 10_000,
        xattr_bytes: 4 << 20,
    };
    let checked = reader.check(limits);
    let mut pending = vec![reader.root()?];
    let mut left = 500;
    while let Some(inode) = pending.pop() {
        let _ = reader.xattrs(&inode);
        let _ = reader.target(&inode);
        let mut buffer = [0; 5000];
        for offset in [inode.size() / 2, u64::MAX - 5] {
            let _ = reader.read(&inode, offset, &mut buffer);
        }
        if let Ok(entries) = reader.entries(&inode) {
            for entry in entries {
                left -= 1;
                if left == 0 {
                    return checked.map(drop);
                }
                let Ok(entry) = entry else { break };
                if left % 8 == 0 {
                    let _ = reader.lookup(&inode, &entry.name);
                }
                if !matches!(&entry.name[..], b"." | b"..") {
                    pending.extend(reader.inode(entry.nid).ok());
                }
            }
        }
    }
    checked.map(drop)
}

#[test]
fn the_image_is_sound_before_it_is_changed() {
    read_all(&IMAGE).expect("is sound");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_structures_neither_panic_nor_hang(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)
    ) {
        let mut image = IMAGE.clone();
        for (place, byte) in changes {
            image[*place.get(&METADATA)] = byte;
        }
        let _ = read_all(&image);
    }

    #[test]
    fn changed_bytes_anywhere_neither_panic_nor_hang(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..200),
        length in any::<prop::sample::Index>(),
    ) {
        let mut image = IMAGE.clone();
        for (place, byte) in changes {
            let at = place.index(image.len());
            image[at] = byte;
        }
        let _ = read_all(&image);
        image.truncate(length.index(IMAGE.len()));
        let _ = read_all(&image);
    }
}

fn changed(at: usize, bytes: &[u8]) -> Error {
    let mut image = IMAGE.clone();
    image[at..at + bytes.len()].copy_from_slice(bytes);
    read_all(&image).expect_err("is refused")
}

#[test]
fn what_is_refused_says_why() {
    assert!(matches!(changed(1024, b"x"), Error::NotErofs));
    let refused = changed(1024 + 80, &0x24_u32.to_le_bytes());
    assert!(
        matches!(refused, Error::Unsupported("fragments")),
        "{refused}"
    );
    let refused = changed(1024 + 86, &1_u16.to_le_bytes());
    assert!(
        matches!(refused, Error::Unsupported("several devices")),
        "{refused}"
    );
    // The root's layout becomes that of a compressed file.
    let refused = changed(1152, &[1 | 1 << 1]);
    assert!(
        matches!(refused, Error::Unsupported("compressed files")),
        "{refused}"
    );
    let refused = changed(1024 + 36, &u32::MAX.to_le_bytes());
    assert!(
        matches!(refused, Error::Corrupt("it is truncated")),
        "{refused}"
    );
}

#[test]
fn a_changed_first_block_is_found_by_its_checksum() {
    let mut image = IMAGE.clone();
    image[1024 + 8] |= 1;
    Reader::open(&image).expect("is as it was written");
    image[3000] ^= 1;
    let refused = Reader::open(&image).expect_err("was changed");
    assert!(matches!(refused, Error::Corrupt("its checksum is wrong")));
}

#[test]
fn a_directory_below_itself_is_refused() {
    let reader = Reader::open(&*IMAGE).expect("open");
    let root = reader.root().expect("root");
    let directory = reader
        .find(&[b"directory-1"])
        .expect("find")
        .expect("is there");
    // Its entry in the root leads to the root.
    let number = directory.nid().to_le_bytes();
    let mut found: Vec<usize> = Vec::new();
    for (at, bytes) in IMAGE.windows(8).enumerate() {
        if bytes == number {
            found.push(at);
        }
    }
    assert!(!found.is_empty());
    let refused: Vec<bool> = found
        .iter()
        .map(|at| matches!(changed(*at, &root.nid().to_le_bytes()), Error::Corrupt(_)))
        .collect();
    assert!(refused.iter().all(|it| *it), "{refused:?}");
}
