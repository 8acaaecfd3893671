//! What the reader finds in an image.

use std::collections::BTreeMap;

use orlop_erofs::read::{Reader, Source};
use orlop_erofs::{Attributes, Kind};

use crate::model::{Found, Path};

pub fn walk<S: Source>(reader: &Reader<S>) -> BTreeMap<Path, Found> {
    let mut all = BTreeMap::new();
    let mut first: BTreeMap<u64, Path> = BTreeMap::new();
    let mut pending: Vec<Path> = vec![Vec::new()];
    while let Some(path) = pending.pop() {
        let names = crate::model::names(&path);
        let inode = reader.find(&names).expect("find").expect("is there");
        let mut bytes = Vec::new();
        match inode.kind() {
            Kind::Directory => {
                for entry in reader.entries(&inode).expect("list") {
                    let entry = entry.expect("read an entry");
                    if !matches!(&entry.name[..], b"." | b"..") {
                        pending.push([&path[..], &[entry.name]].concat());
                    }
                }
                let absent = reader.lookup(&inode, b"~absent").expect("look up");
                assert_eq!(absent, None);
            }
            Kind::File => {
                bytes = vec![0; inode.size() as usize];
                let read = reader.read(&inode, 0, &mut bytes).expect("read");
                assert_eq!(read, bytes.len());
                // A part in the middle, and one that goes past the end.
                for from in [bytes.len() / 3, bytes.len().saturating_sub(5)] {
                    let mut part = vec![0; 5000];
                    let read = reader.read(&inode, from as u64, &mut part).expect("read");
                    assert_eq!(read, (bytes.len() - from).min(5000));
                    assert_eq!(part[..read], bytes[from..from + read]);
                }
            }
            Kind::Symlink => bytes = reader.target(&inode).expect("target"),
            _ => {}
        }
        let lowest = first.entry(inode.nid()).or_insert_with(|| path.clone());
        if path < *lowest {
            lowest.clone_from(&path);
        }
        let found = Found {
            kind: inode.kind(),
            attributes: Attributes {
                mode: inode.mode(),
                uid: inode.uid(),
                gid: inode.gid(),
                mtime: inode.mtime(),
                xattrs: reader.xattrs(&inode).expect("attributes"),
            },
            links: inode.links().into(),
            bytes,
            device: inode.device(),
            same_as: Vec::new(),
        };
        all.insert(path, (found, inode.nid()));
    }
    let with_first = all.into_iter().map(|(path, (mut found, nid))| {
        found.same_as.clone_from(&first[&nid]);
        (path, found)
    });
    with_first.collect()
}
