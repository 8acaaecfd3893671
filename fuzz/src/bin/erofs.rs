//! Images of EROFS that others made.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orlop_erofs::read::{Limits, Reader};

const LIMITS: Limits = Limits {
    entries: 1000,
    chunks: 10_000,
    xattr_bytes: 4 << 20,
};

fuzz_target!(|data: &[u8]| {
    let mut image = data.to_vec();
    // Without the checksum of the superblock, which would refuse nearly all.
    if let Some(features) = image.get_mut(1024 + 8) {
        *features &= !1;
    }
    let Ok(reader) = Reader::open(image) else {
        return;
    };
    let _ = reader.check(LIMITS);
    let Ok(root) = reader.root() else { return };
    let mut pending = vec![root];
    let mut left = 200;
    while let Some(inode) = pending.pop() {
        let _ = (reader.xattrs(&inode), reader.target(&inode));
        let mut buffer = [0; 5000];
        for offset in [0, inode.size() / 2, u64::MAX - 5] {
            let _ = reader.read(&inode, offset, &mut buffer);
        }
        let Ok(entries) = reader.entries(&inode) else {
            continue;
        };
        for entry in entries.map_while(Result::ok) {
            left -= 1;
            if left == 0 {
                return;
            }
            let _ = reader.lookup(&inode, &entry.name);
            if !matches!(&entry.name[..], b"." | b"..") {
                pending.extend(reader.inode(entry.nid).ok());
            }
        }
    }
});
