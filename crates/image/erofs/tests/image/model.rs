//! What an image should be, kept in the simplest way, and written both there and into an image.

use std::collections::BTreeMap;
use std::fs::File;

use orlop_erofs::{Attributes, Image, Kind, Options, Summary};

/// A path as names.
pub type Path = Vec<Vec<u8>>;

/// What is not a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub kind: Kind,
    pub attributes: Attributes,
    /// A file's content, or where a link leads.
    pub bytes: Vec<u8>,
    pub device: (u32, u32),
}

#[derive(Debug, Clone)]
pub enum Item {
    Directory(Attributes, BTreeMap<Vec<u8>, Item>),
    /// By its number among the leaves: names of one number are hard links.
    Leaf(usize),
}

/// An image and what it should be.
pub struct Model {
    pub root: Item,
    pub leaves: Vec<Leaf>,
    image: Image,
    file: File,
}

/// What is at a path, as whoever looks should find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub kind: Kind,
    pub attributes: Attributes,
    pub links: u64,
    pub bytes: Vec<u8>,
    pub device: Option<(u32, u32)>,
    /// Which of all paths with the same inode comes first.
    pub same_as: Path,
}

pub fn attributes(mode: u16) -> Attributes {
    Attributes {
        mode,
        ..Attributes::default()
    }
}

impl Model {
    pub fn new(file: File) -> Self {
        Self::with(file, Options::default())
    }

    pub fn with(file: File, options: Options) -> Self {
        let image = Image::create(file.try_clone().expect("clone"), options).expect("create");
        Self {
            root: Item::Directory(attributes(0o755), BTreeMap::new()),
            leaves: Vec::new(),
            image,
            file,
        }
    }

    pub fn finish(self) -> (Expected, File, Summary) {
        let summary = self.image.finish().expect("finish");
        let mut expected = Expected::default();
        expected.walk(&self.root, &self.leaves, &mut Vec::new());
        expected.count_links();
        (expected, self.file, summary)
    }

    pub fn directory(&mut self, path: &Path, attributes: Attributes) {
        let names = names(path);
        self.image
            .directory(&names, attributes.clone())
            .expect("directory");
        match self.item(path) {
            Some(Item::Directory(former, _)) => *former = attributes,
            _ => self.put(path, Item::Directory(attributes, BTreeMap::new())),
        }
    }

    /// A file whose parts of zeros as long as a hole are left out, if asked for.
    pub fn file(
        &mut self,
        path: &Path,
        attributes: Attributes,
        bytes: &[u8],
        parts: &[(u64, u64)],
    ) {
        let names = names(path);
        let size = bytes.len() as u64;
        let mut writer = self
            .image
            .file(&names, attributes.clone(), size)
            .expect("file");
        for (from, to) in parts {
            let part = &bytes[*from as usize..*to as usize];
            writer.write_at(*from, part).expect("write");
        }
        writer.finish().expect("finish the file");
        self.leaf(path, Kind::File, attributes, bytes, (0, 0));
    }

    pub fn symlink(&mut self, path: &Path, attributes: Attributes, target: &[u8]) {
        let names = names(path);
        self.image
            .symlink(&names, &attributes, target)
            .expect("symlink");
        self.leaf(path, Kind::Symlink, attributes, target, (0, 0));
    }

    pub fn device(&mut self, path: &Path, attributes: Attributes, kind: Kind, device: (u32, u32)) {
        let names = names(path);
        self.image
            .device(&names, &attributes, kind, device)
            .expect("device");
        self.leaf(path, kind, attributes, b"", device);
    }

    pub fn fifo(&mut self, path: &Path, attributes: Attributes) {
        self.image.fifo(&names(path), &attributes).expect("fifo");
        self.leaf(path, Kind::Fifo, attributes, b"", (0, 0));
    }

    pub fn link(&mut self, existing: &Path, new: &Path) {
        self.image
            .link(&names(existing), &names(new))
            .expect("link");
        let Some(Item::Leaf(leaf)) = self.item(existing) else {
            panic!("{existing:?} is no leaf");
        };
        let leaf = *leaf;
        self.put(new, Item::Leaf(leaf));
    }

    pub fn remove(&mut self, path: &Path) {
        assert!(self.image.remove(&names(path)).expect("remove"));
        let (name, parents) = path.split_last().expect("is not the root");
        self.children(parents).remove(name).expect("was there");
    }

    pub fn kind_at(&self, path: &Path) -> Option<Kind> {
        self.image.kind_at(&names(path))
    }

    fn leaf(
        &mut self,
        path: &Path,
        kind: Kind,
        attributes: Attributes,
        bytes: &[u8],
        device: (u32, u32),
    ) {
        self.leaves.push(Leaf {
            kind,
            attributes,
            bytes: bytes.to_vec(),
            device,
        });
        self.put(path, Item::Leaf(self.leaves.len() - 1));
    }

    fn put(&mut self, path: &[Vec<u8>], item: Item) {
        let (name, parents) = path.split_last().expect("is not the root");
        self.children(parents).insert(name.clone(), item);
    }

    fn children(&mut self, path: &[Vec<u8>]) -> &mut BTreeMap<Vec<u8>, Item> {
        match self.item(path) {
            Some(Item::Directory(_, children)) => children,
            other => panic!("{path:?} is no directory but {other:?}"),
        }
    }

    fn item(&mut self, path: &[Vec<u8>]) -> Option<&mut Item> {
        path.iter()
            .try_fold(&mut self.root, |item, name| match item {
                Item::Directory(_, children) => children.get_mut(name),
                Item::Leaf(_) => None,
            })
    }
}

/// All paths of an image, and what is at each.
#[derive(Debug, Default)]
pub struct Expected {
    pub paths: BTreeMap<Path, Found>,
    first: BTreeMap<usize, Path>,
}

impl Expected {
    fn walk(&mut self, item: &Item, leaves: &[Leaf], path: &mut Path) {
        let found = match item {
            Item::Directory(attributes, children) => {
                for (name, child) in children {
                    path.push(name.clone());
                    self.walk(child, leaves, path);
                    path.pop();
                }
                let is_directory = |it: &&Item| matches!(it, Item::Directory(..));
                Found {
                    kind: Kind::Directory,
                    attributes: attributes.clone(),
                    links: 2 + children.values().filter(is_directory).count() as u64,
                    bytes: Vec::new(),
                    device: None,
                    same_as: path.clone(),
                }
            }
            Item::Leaf(number) => {
                let leaf = &leaves[*number];
                let first = self.first.entry(*number).or_insert_with(|| path.clone());
                let is_device = matches!(leaf.kind, Kind::Character | Kind::Block);
                Found {
                    kind: leaf.kind,
                    attributes: leaf.attributes.clone(),
                    links: 1,
                    bytes: leaf.bytes.clone(),
                    device: is_device.then_some(leaf.device),
                    same_as: first.clone(),
                }
            }
        };
        self.paths.insert(path.clone(), found);
    }

    fn count_links(&mut self) {
        let mut counts: BTreeMap<Path, u64> = BTreeMap::new();
        for found in self.paths.values() {
            *counts.entry(found.same_as.clone()).or_default() += 1;
        }
        for found in self.paths.values_mut() {
            if found.kind != Kind::Directory {
                found.links = counts[&found.same_as];
            }
        }
    }

    pub fn inodes(&self) -> u64 {
        let is_first = |(path, found): &(&Path, &Found)| found.same_as == **path;
        self.paths.iter().filter(is_first).count() as u64
    }

    /// Says what differs, if anything does.
    #[track_caller]
    pub fn compare(&self, found: &BTreeMap<Path, Found>) {
        for (path, expected) in &self.paths {
            let name = String::from_utf8_lossy(&path.join(&b'/')).into_owned();
            let found = found
                .get(path)
                .unwrap_or_else(|| panic!("{name} is missing"));
            if expected.bytes != found.bytes {
                let at = expected
                    .bytes
                    .iter()
                    .zip(&found.bytes)
                    .position(|(a, b)| a != b);
                let lengths = (expected.bytes.len(), found.bytes.len());
                panic!("{name}: another content, of {lengths:?} bytes, from {at:?} on");
            }
            assert_eq!(expected, found, "{name}");
        }
        for path in found.keys() {
            assert!(
                self.paths.contains_key(path),
                "{path:?} should not be there"
            );
        }
    }
}

pub fn names(path: &Path) -> Vec<&[u8]> {
    path.iter().map(|name| &name[..]).collect()
}

/// A path as names, from one as it is written.
pub fn path(written: &str) -> Path {
    let names = written.split('/').filter(|name| !name.is_empty());
    names.map(|name| name.as_bytes().to_vec()).collect()
}
