//! Tests with archives that try to write outside of their target.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use tar::{Builder, Header};

use super::super::pack::pack;
use super::*;

struct Sent(Builder<Vec<u8>>);

impl Sent {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// Adds an entry with any name: the library's own functions refuse the worst names.
    fn entry(mut self, kind: EntryType, name: &str, link: &str, text: &str) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_mode(0o4755);
        header.set_size(text.len() as u64);
        header.set_cksum();
        self.0.append(&header, text.as_bytes()).unwrap();
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        self.entry(EntryType::Regular, name, "", text)
    }

    fn unpack(self, source: &str, here: &Path) -> anyhow::Result<Copied> {
        let bytes = self.0.into_inner().unwrap();
        let never = CancellationToken::new();
        Target::new(source, here)?.unpack(bytes.as_slice(), Keep::Plain, &never)
    }
}

fn left(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_tree_goes_there_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    fs::create_dir_all(source.join("a/b")).unwrap();
    fs::write(source.join("a/b/file"), "text").unwrap();
    fs::write(source.join("empty"), "").unwrap();
    symlink("b/file", source.join("a/link")).unwrap();
    let mut archive = Vec::new();
    let never = CancellationToken::new();
    let packed = pack(&source, "source", &mut archive, Keep::Plain, &never).unwrap();
    assert_eq!((packed.files, packed.bytes), (2, 4));

    let target = directory.path().join("target");
    let copied = Target::new("/source", &target)
        .unwrap()
        .unpack(archive.as_slice(), Keep::Plain, &never)
        .unwrap();
    assert_eq!(copied, packed);
    assert_eq!(fs::read_to_string(target.join("a/link")).unwrap(), "text");
    let times = |path: &str| fs::metadata(directory.path().join(path)).unwrap().mtime();
    assert_eq!(times("target/a/b/file"), times("source/a/b/file"));
    assert_eq!(left(directory.path()), ["source", "target"]);
}

#[test]
fn a_header_that_stands_for_gigabytes_of_zeros_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_path("data").unwrap();
    header.set_size(0);
    // The fields for the end of a hole and for the size of the file.
    for at in [386, 483] {
        header.as_mut_bytes()[at..at + 12].copy_from_slice(b"00077777000\0");
    }
    header.as_mut_bytes()[398..410].copy_from_slice(b"00000000000\0");
    header.set_cksum();
    let mut sent = Sent::new();
    sent.0.append(&header, &[][..]).unwrap();
    let error = sent.unpack("/data", directory.path()).unwrap_err();
    assert!(format!("{error:#}").contains("sparse"), "{error:#}");
    assert_eq!(left(directory.path()), Vec::<String>::new());
}

/// No fuzzed archive writes outside of the target or over files that are not part of the copy.
#[test]
fn fuzzed_archives_write_nothing_outside_of_the_target() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().join("here");
    let secret = directory.path().join("secret");
    fs::write(&secret, "mine").unwrap();
    let tree = Sent::new()
        .entry(EntryType::Directory, "data", "", "")
        .file("data/file", "text")
        .entry(EntryType::Symlink, "data/link", "file", "")
        .entry(EntryType::Link, "data/hard", "data/file", "");
    let hostile = Sent::new()
        .entry(EntryType::Directory, "data", "", "")
        .entry(EntryType::Symlink, "data/out", "../../secret", "")
        .entry(EntryType::Link, "data/evil", "data/../../secret", "")
        .file("data/out", "theirs");
    let odd = Sent::new()
        .entry(EntryType::GNULongName, "././@LongLink", "", "data/long")
        .file("data/x", "text")
        .entry(
            EntryType::XHeader,
            "PaxHeaders/x",
            "",
            "21 path=data/../evil\n",
        )
        .entry(EntryType::GNUSparse, "data/sparse", "", "text");
    let bytes = |sent: Sent| sent.0.into_inner().unwrap();
    orlop_testkit::Fuzz::new()
        .example(bytes(tree))
        .example(bytes(hostile))
        .example(bytes(odd))
        .words([
            "../",
            "/etc/",
            "data/",
            "\0",
            "77777777777",
            "ustar",
            "path=",
            "GNU.sparse.major=1",
        ])
        .repair(|archive, _| orlop_testkit::mutation::mend_tar_checksums(archive))
        .run(|input| {
            fs::create_dir(&here).unwrap();
            let never = CancellationToken::new();
            let _ = Target::new("/data", &here)
                .unwrap()
                .unpack(input, Keep::Plain, &never);
            assert_eq!(left(directory.path()), ["here", "secret"]);
            assert_eq!(fs::read_to_string(&secret).unwrap(), "mine");
            assert!(
                left(&here).iter().all(|name| name == "data"),
                "{:?}",
                left(&here)
            );
            orlop_fs::remove_tree(&here).unwrap();
        });
}

#[test]
fn nothing_is_written_beside_the_target() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().join("here");
    fs::create_dir(&here).unwrap();
    let tries: [(&str, Sent); 7] = [
        ("up", Sent::new().file("data/../../evil", "x")),
        ("root", Sent::new().file("/evil", "x")),
        ("other name", Sent::new().file(".bashrc", "x")),
        (
            "through a link",
            Sent::new()
                .entry(EntryType::Directory, "data", "", "")
                .entry(EntryType::Symlink, "data/in", "sub", "")
                .file("data/in/evil", "x"),
        ),
        (
            "the tree itself a link",
            Sent::new()
                .entry(EntryType::Symlink, "data", "../..", "")
                .file("data/evil", "x"),
        ),
        (
            "hard link to the outside",
            Sent::new()
                .entry(EntryType::Directory, "data", "", "")
                .entry(EntryType::Link, "data/evil", "../../secret", ""),
        ),
        (
            "hard link to another name",
            Sent::new()
                .entry(EntryType::Directory, "data", "", "")
                .entry(EntryType::Link, "data/evil", "secret", ""),
        ),
    ];
    fs::write(here.join("secret"), "mine").unwrap();
    for (what, sent) in tries {
        let result = sent.unpack("/data", &here);
        assert!(result.is_err(), "{what}");
        assert_eq!(left(&here), ["secret"], "{what}: nothing stays half made");
        assert_eq!(left(directory.path()), ["here"], "{what}");
    }
}

#[test]
fn links_out_of_the_tree_and_devices_are_left_out_and_set_id_bits_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let sent = Sent::new()
        .entry(EntryType::Directory, "data", "", "")
        .entry(EntryType::Symlink, "data/abs", "/etc/passwd", "")
        .entry(EntryType::Symlink, "data/up", "../../x", "")
        .entry(EntryType::Symlink, "data/fine", "./suid", "")
        .entry(EntryType::Char, "data/dev", "", "")
        .file("data/suid", "x");
    let copied = sent.unpack("/data", directory.path()).unwrap();
    assert_eq!((copied.files, copied.left_out), (1, 3));
    let data = directory.path().join("data");
    assert_eq!(left(&data), ["fine", "suid"]);
    let mode = fs::metadata(data.join("suid")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

/// Links must not lead out of the tree, in any combination.
#[test]
fn links_do_not_lead_out_of_the_tree_together() {
    let tree = || {
        Sent::new()
            .entry(EntryType::Directory, "data", "", "")
            .entry(EntryType::Directory, "data/a", "", "")
            .entry(EntryType::Directory, "data/a/b", "", "")
    };
    let up = |sent: Sent| sent.entry(EntryType::Symlink, "data/a/b/up", "../..", "");
    let evil = |sent: Sent, target| sent.entry(EntryType::Symlink, "data/evil", target, "");
    let tries: [(&str, Sent); 4] = [
        ("up from a link", evil(up(tree()), "a/b/up/../secret")),
        (
            "up from what gets a link later",
            up(evil(tree(), "a/b/up/../secret")),
        ),
        (
            "up from a link to a directory",
            evil(
                tree().entry(EntryType::Symlink, "data/a/b/l", "../../a", ""),
                "a/b/l/../../secret",
            ),
        ),
        (
            "a link that is moved up",
            up(tree()).entry(EntryType::Link, "data/evil", "data/a/b/up", ""),
        ),
    ];
    for (what, sent) in tries {
        let directory = tempfile::tempdir().unwrap();
        let copied = sent.unpack("/data", directory.path()).unwrap();
        assert_eq!((copied.files, copied.left_out), (0, 1), "{what}");
        let evil = fs::symlink_metadata(directory.path().join("data/evil"));
        assert!(evil.is_err(), "{what}");
    }
    // Links that go up only through directories are unpacked.
    let directory = tempfile::tempdir().unwrap();
    let copied = evil(up(tree()), "a/b/../../a/b/up/a")
        .unpack("/data", directory.path())
        .unwrap();
    assert_eq!(copied.left_out, 0);
    let leads_to = directory.path().join("data/evil").canonicalize().unwrap();
    let data = directory.path().canonicalize().unwrap().join("data");
    assert_eq!(leads_to, data.join("a"));
}

#[test]
fn a_link_here_is_not_written_through() {
    let directory = tempfile::tempdir().unwrap();
    let outside = directory.path().join("outside");
    fs::write(&outside, "mine").unwrap();
    let here = directory.path().join("here");
    fs::create_dir(&here).unwrap();
    symlink(&outside, here.join("data")).unwrap();
    Sent::new()
        .file("data", "theirs")
        .unpack("/data", &here)
        .unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
    assert_eq!(fs::read_to_string(here.join("data")).unwrap(), "theirs");
}

#[test]
fn an_archive_that_breaks_off_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let sent = Sent::new()
        .entry(EntryType::Directory, "data", "", "")
        .file("data/a", "x")
        .file("data/b", &"y".repeat(5000));
    let bytes = sent.0.into_inner().unwrap();
    let never = CancellationToken::new();
    // Truncated inside a file, and between two files.
    for length in [4096, 1536] {
        let cut = &bytes[..length];
        let target = Target::new("/data", directory.path()).unwrap();
        assert!(target.unpack(cut, Keep::Plain, &never).is_err(), "{length}");
        assert_eq!(left(directory.path()), Vec::<String>::new(), "{length}");
    }
}
