//! Large reproducible trees that are generated file by file, never completely in memory.

use std::collections::HashMap;

use super::{Chunked, ChunkedLayer, ChunkedWriter, Cut, Layer};

/// Directories in each directory.
const FAN: usize = 16;

/// A tree with a number of files, directories and total bytes.
#[derive(Debug, Clone)]
pub struct LargeTree {
    files: usize,
    directories: usize,
    bytes: u64,
    seed: u64,
    words: bool,
}

impl LargeTree {
    /// Creates files of incompressible noise. Sizes differ, up to twice the average, except that the first file also
    /// has the remainder.
    pub fn new(files: usize, directories: usize, bytes: u64) -> Self {
        assert!(files > 0 && directories > 0, "a tree has something in it");
        Self {
            files,
            directories,
            bytes,
            seed: 1,
            words: false,
        }
    }

    /// Sets a seed for different content.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Uses content that compresses to about half.
    pub fn words(mut self) -> Self {
        self.words = true;
        self
    }

    /// Returns the number of files, which are numbered from 0.
    pub fn files(&self) -> usize {
        self.files
    }

    /// Returns the path of a file.
    pub fn path(&self, file: usize) -> String {
        format!("{}/f{file}", directory(file % self.directories))
    }

    /// Returns the size of a file.
    pub fn size(&self, file: usize) -> usize {
        let files = self.files as u64;
        let average = self.bytes / files;
        let left = if file == 0 { self.bytes % files } else { 0 };
        // In each pair of files, one exceeds the average by what the other lacks.
        let pair = file / 2;
        let alone = pair * 2 + 1 == self.files;
        let more = if alone || average == 0 {
            0
        } else {
            Noise::new(self.seed, pair as u64).next() % average
        };
        let size = if file.is_multiple_of(2) {
            average - more + left
        } else {
            average + more
        };
        usize::try_from(size).expect("a file fits into memory")
    }

    /// Returns the content of a file.
    pub fn content(&self, file: usize) -> Vec<u8> {
        let mut noise = Noise::new(self.seed, file as u64 ^ (1 << 40));
        let mut content = vec![0; self.size(file).next_multiple_of(8)];
        for word in content.as_chunks_mut::<8>().0 {
            let next = noise.next();
            *word = if self.words {
                // Only four bits of each byte vary: the letters from `a` to `o`, and one symbol.
                ((next & 0x0f0f_0f0f_0f0f_0f0f) | 0x6060_6060_6060_6060).to_le_bytes()
            } else {
                next.to_le_bytes()
            };
        }
        content.truncate(self.size(file));
        content
    }

    /// Returns the tree as a layer for lazy pulling. Prioritized files must be files of the tree.
    pub fn chunked(&self, form: Chunked, cut: &Cut) -> ChunkedLayer {
        let mut writer = ChunkedWriter::new(form, cut);
        let landmark = cut.landmarks && form != Chunked::ZstdChunked;
        if landmark && cut.first.is_empty() {
            writer.nothing_wanted();
        }
        for number in 0..self.directories {
            writer.add(&Layer::new().dir(&directory(number), 0o755).tar());
        }
        let mut is_first = vec![false; self.files];
        if !cut.first.is_empty() {
            let numbers: HashMap<String, usize> =
                (0..self.files).map(|at| (self.path(at), at)).collect();
            for path in &cut.first {
                let file = numbers.get(path);
                let file = *file.unwrap_or_else(|| panic!("{path} is no file of the tree"));
                if !std::mem::replace(&mut is_first[file], true) {
                    writer.add(&self.file(file).tar());
                }
            }
            if landmark {
                writer.wanted_soon();
            }
        }
        for file in (0..self.files).filter(|file| !is_first[*file]) {
            writer.add(&self.file(file).tar());
        }
        writer.finish()
    }

    /// Returns the tree as a layer in memory.
    pub fn layer(&self) -> Layer {
        let mut whole = Layer::new();
        for number in 0..self.directories {
            whole = whole.dir(&directory(number), 0o755);
        }
        for file in 0..self.files {
            whole = whole.file(&self.path(file), self.content(file), 0o644);
        }
        whole
    }

    /// Returns a file as a separate layer.
    fn file(&self, number: usize) -> Layer {
        Layer::new().file(&self.path(number), self.content(number), 0o644)
    }
}

/// Returns the path of a directory; its parents have lower numbers.
fn directory(number: usize) -> String {
    match number {
        0 => "tree".to_owned(),
        _ => format!("{}/d{number}", directory((number - 1) / FAN)),
    }
}

/// Pseudorandom numbers (xorshift).
struct Noise(u64);

impl Noise {
    fn new(seed: u64, number: u64) -> Self {
        let mixed = (seed ^ number.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut noise = Self(mixed | 1);
        // Similar seeds have similar first numbers, which are skipped.
        for _ in 0..8 {
            noise.next();
        }
        noise
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::image::entries::{Entry, entries};

    #[test]
    fn a_tree_has_what_was_asked_for_and_is_the_same_each_time() {
        let tree = LargeTree::new(501, 40, 3_000_007);
        let archive = tree.layer().tar();
        let found = entries(&archive);
        assert_eq!(found.len(), 541);
        let files = found.iter().filter(|entry| !entry.is_directory());
        assert_eq!(
            files.clone().map(|f| f.content.len()).sum::<usize>(),
            3_000_007
        );
        let contents: HashSet<_> = files.map(|f| &archive[f.content.clone()]).collect();
        assert_eq!(contents.len(), 501, "files are alike");
        let mut known = HashSet::from([String::new()]);
        for entry in &found {
            let path = String::from_utf8(entry.path().to_vec()).expect("text");
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            assert!(known.contains(parent), "{path} is in no directory");
            known.insert(path);
        }
        assert!(tree.layer().tar() == archive);
        assert!(tree.clone().seed(2).layer().tar() != archive);
        for form in Chunked::ALL {
            let layer = tree.chunked(form, &Cut::new().without_landmark());
            let whole = layer.archive();
            assert!(
                whole.starts_with(&archive[..archive.len() - 1024]),
                "{form:?}"
            );
        }
    }

    #[test]
    fn files_that_are_wanted_come_first() {
        let tree = LargeTree::new(50, 4, 50_000);
        let (one, other) = (tree.path(40), tree.path(7));
        let cut = Cut::new().first(&[&one, &other, &one]);
        let archive = tree.chunked(Chunked::EStargz, &cut).archive();
        let found = entries(&archive);
        let paths: Vec<_> = found.iter().map(Entry::path).collect();
        let landmark = b".prefetch.landmark".as_slice();
        assert_eq!(paths[4..7], [one.as_bytes(), other.as_bytes(), landmark]);
        assert_eq!(paths.len(), 4 + 50 + 2, "with the table of contents");
        let mut sorted = paths.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), paths.len(), "a file is there twice");
        let any = tree.chunked(Chunked::EStargz, &Cut::new()).archive();
        assert_eq!(entries(&any)[0].path(), b".no.prefetch.landmark");
    }

    #[test]
    fn noise_does_not_compress_and_words_do() {
        for (tree, least, most) in [
            (LargeTree::new(10, 1, 1_000_000), 1_000_000, 1_010_000),
            (LargeTree::new(10, 1, 1_000_000).words(), 400_000, 700_000),
        ] {
            let bytes = tree.chunked(Chunked::ZstdChunked, &Cut::new()).bytes.len();
            assert!((least..most).contains(&bytes), "{bytes}");
        }
    }
}
