//! What the tools of EROFS say of our images, and the reader of theirs.

use std::path::Path;
use std::process::Command;

use orlop_erofs::read::{Error, Limits, Reader};
use orlop_testkit::process::run;
use orlop_testkit::{machine, skip_unless};

use crate::model::{Model, attributes, path};
use crate::random;

fn judge(model: Model) {
    let dir = tempfile::tempdir_in("/var/tmp").expect("make a directory");
    let image = dir.path().join("image");
    let (_, mut file, _) = model.finish();
    let mut copy = std::fs::File::create(&image).expect("make a file");
    std::io::Seek::rewind(&mut file).expect("rewind");
    std::io::copy(&mut file, &mut copy).expect("copy");
    // With all contents, which it reads when it extracts them.
    let mut fsck = Command::new("fsck.erofs");
    let output = fsck
        .arg("--extract")
        .arg(&image)
        .output()
        .expect("run fsck.erofs");
    // It prints nothing where all is well.
    let is_clean = output.status.success() && output.stderr.is_empty();
    assert!(is_clean, "{output:?}");
    let output = Command::new("dump.erofs").arg("-s").arg(&image).output();
    let said = String::from_utf8(output.expect("run dump.erofs").stdout).expect("is text");
    assert!(said.contains("sb_csum"), "{said}");
}

#[test]
fn fsck_finds_no_errors() {
    skip_unless!(machine::has_program("fsck.erofs"));
    let file = || tempfile::tempfile_in("/var/tmp").expect("make a file");
    judge(Model::new(file()));
    for seed in 20..24 {
        judge(random::tree(seed, 400, file()));
    }
    let mut model = Model::new(file());
    for number in 0..3000 {
        let name = format!("{number}-{}", "n".repeat(number % 200));
        model.file(&path(&name), attributes(0o644), b"x", &[(0, 1)]);
    }
    judge(model);
}

fn made(options: &[&str], from: &Path) -> Result<orlop_erofs::read::Census, Error> {
    let image = from.with_extension("image");
    run(Command::new("mkfs.erofs")
        .args(options)
        .args([&image, from]));
    let reader = Reader::open(std::fs::File::open(&image).expect("open"))?;
    let file = reader.find(&[b"directory", b"file"])?.expect("is there");
    let mut content = vec![0; file.size() as usize];
    reader.read(&file, 0, &mut content)?;
    assert_eq!(
        content,
        std::fs::read(from.join("directory/file")).expect("read")
    );
    reader.check(Limits::default())
}

#[test]
fn images_of_others_are_read_or_refused_by_what_they_have() {
    skip_unless!(machine::has_program("mkfs.erofs"));
    let dir = tempfile::tempdir_in("/var/tmp").expect("make a directory");
    let from = dir.path().join("from");
    std::fs::create_dir_all(from.join("directory")).expect("make a directory");
    let content = "compressible ".repeat(10_000);
    std::fs::write(from.join("directory/file"), content).expect("write");
    for number in 0..2000 {
        let name = from.join(format!("directory/{number}"));
        std::os::unix::fs::symlink("target", name).expect("link");
    }
    for options in [
        &[][..],
        &["-Eforce-inode-compact"],
        &["-Eforce-inode-extended"],
    ] {
        let census = made(options, &from).expect("is read");
        assert_eq!(census.entries, 2002, "{options:?}");
    }
    let census = made(&["--chunksize=4096"], &from).expect("is read");
    assert!(census.chunks >= 31, "{census:?}");
    let refused = made(&["-zlz4"], &from).expect_err("is compressed");
    assert!(matches!(refused, Error::Unsupported(_)), "{refused}");
}
