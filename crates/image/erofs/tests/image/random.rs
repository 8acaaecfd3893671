//! Random trees, the same for the same seed.

use std::fs::File;

use orlop_erofs::{Attributes, Kind, Timestamp};

use crate::model::{Model, Path};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    /// A letter repeated would hide what is at a wrong place.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let words = (0..length.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(length).collect()
    }

    fn name(&mut self) -> Vec<u8> {
        let length = match self.below(10) {
            0 => 255,
            1 => 1 + self.below(254),
            _ => 1 + self.below(12),
        };
        let bytes = self.bytes(length as usize).into_iter();
        let name: Vec<u8> = bytes
            .map(|byte| if matches!(byte, 0 | b'/') { b'-' } else { byte })
            .collect();
        match &name[..] {
            b"." | b".." => b".-".to_vec(),
            _ => name,
        }
    }

    pub fn attributes(&mut self) -> Attributes {
        let mut attributes = Attributes {
            mode: (self.next() & 0o7777) as u16,
            uid: self.pick(&[0, 1000, 65_534, 70_000, 4_000_000_000]),
            gid: self.pick(&[0, 33, 70_001]),
            mtime: Timestamp {
                seconds: self.pick(&[0, 1_700_000_000, -5, 5_000_000_000]),
                nanoseconds: self.below(1_000_000_000) as u32,
            },
            ..Attributes::default()
        };
        let count = self.pick(&[0, 0, 0, 1, 2, 20]);
        for _ in 0..count {
            let prefix = self.pick(&["user.", "trusted.", "security."]);
            let name = format!("{prefix}{:x}", self.below(40));
            let length = self.pick(&[0, 1, 7, 100, 5000]);
            let value = match length {
                // The same one on many inodes.
                7 => b"shared!".to_vec(),
                length => self.bytes(length),
            };
            attributes.xattrs.insert(name.into_bytes(), value);
        }
        attributes
    }

    /// Parts of a content, of which some are holes.
    fn content(&mut self) -> (Vec<u8>, Vec<(u64, u64)>) {
        let sizes = [
            0, 1, 100, 1983, 1984, 1985, 4095, 4096, 4097, 8192, 12_345, 70_000, 300_000,
        ];
        let size = self.pick(&sizes);
        let mut bytes = self.bytes(size);
        let mut parts = Vec::new();
        let is_sparse = self.below(3) == 0;
        let mut at = 0;
        while at < size {
            let part = 1 + self.below(self.0 % 40_000 + 1) as usize;
            let end = size.min(at + part);
            if is_sparse && self.below(2) == 0 {
                bytes[at..end].fill(0);
            } else {
                parts.push((at as u64, end as u64));
            }
            at = end;
        }
        (bytes, parts)
    }
}

/// An image of so many entries of all kinds, of which some take the place of others.
pub fn tree(seed: u64, entries: usize, file: File) -> Model {
    let random = &mut Random(seed);
    let mut model = Model::new(file);
    let mut paths: Vec<Path> = vec![Vec::new()];
    model.directory(&Vec::new(), random.attributes());
    for _ in 0..entries {
        // What was removed meanwhile is not there.
        let parent = random.pick(&paths);
        if model.kind_at(&parent) != Some(Kind::Directory) {
            continue;
        }
        let former = random.pick(&paths);
        let name = match former.split_first() {
            // Something may be there already.
            Some((_, [.., name])) if random.below(4) == 0 => name.clone(),
            _ => random.name(),
        };
        let path = [&parent[..], &[name]].concat();
        let attributes = random.attributes();
        match random.below(20) {
            0..6 => model.directory(&path, attributes),
            6..13 => {
                let (bytes, parts) = random.content();
                model.file(&path, attributes, &bytes, &parts);
            }
            13..15 => {
                let length = random.pick(&[1, 20, 300, 4031, 4032, 4033, 4095]);
                let bytes = random.bytes(length).into_iter();
                let target: Vec<u8> = bytes.map(|byte| byte.max(1)).collect();
                // Links have no attributes of users: their owner says nothing.
                model.symlink(&path, without_users(attributes), &target);
            }
            15 => {
                let kind = random.pick(&[Kind::Character, Kind::Block]);
                let device = random.pick(&[(0, 0), (1, 3), (259, 70_000), (4095, 1_048_575)]);
                model.device(&path, without_users(attributes), kind, device);
            }
            16 => model.fifo(&path, without_users(attributes)),
            17 | 18 => {
                let is_leaf = |kind| kind != Kind::Directory;
                if model.kind_at(&former).is_some_and(is_leaf) {
                    model.link(&former, &path);
                }
            }
            _ => {
                if !former.is_empty() && model.kind_at(&former).is_some() && random.below(3) == 0 {
                    model.remove(&former);
                }
            }
        }
        paths.push(path);
    }
    model
}

/// The kernel has attributes of users for files and directories only.
fn without_users(mut attributes: Attributes) -> Attributes {
    attributes
        .xattrs
        .retain(|name, _| !name.starts_with(b"user."));
    attributes
}
