//! Tests with directories that a container replaces while they are packed.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A writer that replaces a directory by a link when it gets the first bytes.
struct Exchanged<'a> {
    archive: Vec<u8>,
    directory: &'a Path,
    other: &'a Path,
}

impl Write for Exchanged<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.archive.is_empty() {
            fs::rename(self.directory, self.directory.with_file_name("moved"))?;
            symlink(self.other, self.directory)?;
        }
        self.archive.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_directory_that_becomes_a_link_shows_nothing_of_where_it_leads() {
    // Length of headers, and of the blocks that are written together.
    const HEADER: usize = 512;
    const WRITTEN: usize = 64 << 10;
    for (what, place, length) in [
        ("as it is listed", "tree/a", WRITTEN - 2 * HEADER),
        ("while what is in it is read", "tree/b/a", WRITTEN),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (tree, text) in [("tree/b", "theirs"), ("outside", "mine")] {
            fs::create_dir_all(path(tree).join("below")).unwrap();
            fs::write(path(tree).join("below/file"), text).unwrap();
            fs::write(path(tree).join("file"), text).unwrap();
        }
        fs::write(path(place), vec![0; length]).unwrap();
        let mut to = Exchanged {
            archive: Vec::new(),
            directory: &path("tree/b"),
            other: &path("outside"),
        };
        let never = CancellationToken::new();
        let packed = pack(&path("tree"), "tree", &mut to, Keep::Plain, &never).unwrap();
        assert_eq!(packed.files, 3, "{what}");
        let contains = |text: &[u8]| to.archive.windows(text.len()).any(|found| found == text);
        assert!(contains(b"theirs") && !contains(b"mine"), "{what}");
        assert!(path("tree/b").is_symlink(), "{what}");
    }
}
