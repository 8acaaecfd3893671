//! Malicious ztocs.

use orlop_testkit::image::ZtocParts;
use orlop_testkit::image::flat::{Value, build};

use super::archive::{self, content};
use super::layer::compress;
use super::ztoc::{Archive, Indexed as _, index, plain};
use crate::{Error, Limits, Problem, Result};

const CHECKPOINT: usize = 17 + (32 << 10);
const HEADER: usize = 12;

fn parts() -> ZtocParts {
    let mut archive = Archive::default();
    archive.add("reg", "f", "", &content(1, 200_000));
    archive.tar.extend(archive::end());
    let layer = compress(false, &archive.tar);
    archive.parts(&layer, 30_000)
}

fn changed(change: impl FnOnce(&mut ZtocParts)) -> Result<()> {
    let mut parts = parts();
    change(&mut parts);
    parts.index(&Limits::default()).map(drop)
}

fn damaged(change: impl FnOnce(&mut ZtocParts)) {
    let refused = changed(change);
    assert!(matches!(refused, Err(Error::Ztoc(_))), "{refused:?}");
}

fn problem(change: impl FnOnce(&mut Vec<Value>)) -> Option<Problem> {
    match changed(|parts| change(&mut parts.files[0])) {
        Ok(()) => None,
        Err(Error::Entry { problem, .. }) => Some(problem),
        Err(other) => panic!("{other}"),
    }
}

fn put(parts: &mut ZtocParts, checkpoint: usize, field: usize, value: u64) {
    let at = HEADER + checkpoint * CHECKPOINT + field * 8;
    parts.checkpoints[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn what_does_not_fit_its_layer_is_refused() {
    changed(|_| ()).unwrap();
    damaged(|parts| parts.version = "1.0");
    damaged(|parts| parts.size = -1);
    damaged(|parts| parts.last += 1);
    damaged(|parts| parts.last = -1);
    damaged(|parts| parts.last = i32::MIN);
    damaged(|parts| parts.algorithm = Value::Byte(3));
    damaged(|parts| parts.algorithm = Value::Byte(-1));
    damaged(|parts| parts.digests[1] = "sha512:00".into());
    damaged(|parts| drop(parts.digests.pop()));
    damaged(|parts| {
        parts.digests.pop();
        parts.last -= 1;
    });
    let good = parts();
    let layer = good.layer as u64;
    let refused = index(&good.build(), layer + 1, &Limits::default());
    assert!(matches!(refused, Err(Error::Ztoc(_))));
}

#[test]
fn windows_that_are_not_whole_are_refused() {
    for length in [
        0,
        1,
        11,
        HEADER,
        HEADER + 1,
        HEADER + CHECKPOINT,
        HEADER + 3 * CHECKPOINT - 1,
    ] {
        damaged(|parts| parts.checkpoints.truncate(length));
    }
    damaged(|parts| parts.checkpoints.push(0));
    damaged(|parts| {
        parts
            .checkpoints
            .resize(parts.checkpoints.len() + CHECKPOINT, 0);
    });
    for count in [0_u32, 1, 1000] {
        damaged(|parts| parts.checkpoints[..4].copy_from_slice(&count.to_le_bytes()));
    }
    let refused = changed(|parts| parts.checkpoints[..4].fill(255));
    assert!(matches!(refused, Err(Error::TooMuch { what: "spans", .. })));
}

#[test]
fn checkpoints_in_disorder_or_outside_are_refused() {
    damaged(|parts| put(parts, 0, 0, 9));
    damaged(|parts| put(parts, 0, 1, 1));
    damaged(|parts| parts.checkpoints[HEADER + 16] = 1);
    damaged(|parts| put(parts, 1, 0, 10));
    damaged(|parts| put(parts, 1, 0, u64::MAX));
    damaged(|parts| put(parts, 2, 1, 5));
    damaged(|parts| {
        let at = HEADER + CHECKPOINT + 8;
        let out = *parts.checkpoints[at..].first_chunk().unwrap();
        put(parts, 2, 1, u64::from_le_bytes(out));
    });
    damaged(|parts| parts.checkpoints[HEADER + CHECKPOINT + 16] = 8);
    damaged(|parts| {
        let (last, layer) = (parts.last as usize, parts.layer as u64);
        put(parts, last, 0, layer + 1);
    });
    let refused = changed(|parts| {
        let last = parts.last as usize;
        put(parts, last, 1, u64::MAX);
    });
    assert!(matches!(refused, Err(Error::TooMuch { .. })));
}

#[test]
fn spans_larger_than_allowed_are_refused() {
    let limits = Limits {
        chunk: 20_000,
        ..Limits::default()
    };
    let refused = parts().index(&limits);
    assert!(matches!(
        refused,
        Err(Error::TooMuch {
            what: "bytes of a span",
            ..
        })
    ));
    let huge = changed(|parts| parts.size = i64::MAX);
    assert!(matches!(
        huge,
        Err(Error::TooMuch {
            what: "bytes of a span",
            ..
        })
    ));
}

#[test]
fn content_that_is_not_in_the_archive_is_refused() {
    let outside = Some(Problem::Outside);
    assert_eq!(problem(|file| file[2] = Value::Long(-1)), outside);
    assert_eq!(problem(|file| file[2] = Value::Long(i64::MAX)), outside);
    assert_eq!(problem(|file| file[2] = Value::Long(2_000)), outside);
    assert_eq!(problem(|file| file[3] = Value::Long(i64::MAX)), outside);
    assert_eq!(
        problem(|file| file[3] = Value::Long(-1)),
        Some(Problem::Size)
    );
    assert_eq!(
        problem(|file| file[0] = Value::text("../f")),
        Some(Problem::Upwards)
    );
    assert_eq!(
        problem(|file| file[0] = Value::text(b"f\0")),
        Some(Problem::Nul)
    );
    assert_eq!(
        problem(|file| file[1] = Value::text("other")),
        Some(Problem::Kind)
    );
    assert_eq!(
        problem(|file| file[6] = Value::Int(-1)),
        Some(Problem::Owner)
    );
    // Names need not be UTF-8.
    assert_eq!(problem(|file| file[0] = Value::text(b"\xff\xfe")), None);
}

#[test]
fn a_few_bytes_that_stand_for_many_records_are_refused() {
    let record = Value::Table(vec![Value::text("k"), Value::text("v")]);
    let limits = Limits {
        entries: 10,
        ..Limits::default()
    };
    let with = |records: usize| {
        let mut parts = parts();
        parts.files[0][13] = Value::Vector(vec![record.clone(); records]);
        parts.index(&limits).map(drop)
    };
    with(80).unwrap();
    assert!(matches!(with(81), Err(Error::TooMuch { .. })));
    let large = Value::Table(vec![
        Value::text("SCHILY.xattr.user.x"),
        Value::text(vec![7; 200_000]),
    ]);
    let refused = problem(|file| file[13] = Value::Vector(vec![large]));
    assert_eq!(refused, Some(Problem::Xattrs));
}

#[test]
fn files_with_holes_left_out_are_refused() {
    let record = Value::Table(vec![Value::text("GNU.sparse.major"), Value::text("1")]);
    let refused = problem(|file| file[13] = Value::Vector(vec![record]));
    assert_eq!(refused, Some(Problem::Sparse));
}

#[test]
fn more_files_or_spans_than_allowed_are_refused() {
    let few = Limits {
        entries: 3,
        ..Limits::default()
    };
    let mut many = parts();
    many.files = vec![many.files[0].clone(); 4];
    assert!(matches!(
        many.index(&few),
        Err(Error::TooMuch {
            what: "entries",
            ..
        })
    ));
    let few = Limits {
        chunks: 2,
        ..Limits::default()
    };
    assert!(matches!(
        parts().index(&few),
        Err(Error::TooMuch { what: "spans", .. })
    ));
    let mut plain = plain(&super::ztoc::archive(), 65_536);
    // Spans of one byte each.
    plain.checkpoints = build(&[Value::Int(2), Value::Long(1), Value::Long(plain.layer)]);
    assert!(plain.index(&few).is_err());
}

#[test]
fn spans_of_a_plain_layer_that_are_not_its_own_are_refused() {
    let archive = super::ztoc::archive();
    let told = |apart: i64, size: i64| {
        let mut parts = plain(&archive, 65_536);
        parts.checkpoints = build(&[Value::Int(2), Value::Long(apart), Value::Long(size)]);
        parts.index(&Limits::default()).map(drop)
    };
    let size = archive.tar.len() as i64;
    told(65_536, size).unwrap();
    for (apart, told_size) in [
        (0, size),
        (-1, size),
        (65_536, size + 1),
        (65_535, 0),
        (1 << 40, size),
    ] {
        assert!(
            matches!(told(apart, told_size), Err(Error::Ztoc(_))),
            "{apart} {told_size}"
        );
    }
    let mut larger = plain(&archive, 65_536);
    larger.size += 1;
    assert!(matches!(
        larger.index(&Limits::default()),
        Err(Error::Ztoc(_))
    ));
}

#[test]
fn offsets_that_lead_out_of_the_buffer_are_refused() {
    let good = parts().build();
    let layer = parts().layer as u64;
    index(&good, layer, &Limits::default()).unwrap();
    // The last byte is the NUL after a text, which is not read.
    for length in [0, 3, 4, 8, 40, 100, good.len() - 2] {
        let refused = index(&good[..length], layer, &Limits::default());
        assert!(matches!(refused, Err(Error::Ztoc(_))), "{length}");
    }
    // Replaces each of the first references: to the end, far behind it, to itself, and back.
    for at in (0..120).step_by(2) {
        for value in [good.len() as u32, u32::MAX, 0, 1, 0x8000_0000] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
            // The result may be another ztoc or an error, but the parser must return.
            let _ = index(&bad, layer, &Limits::default());
        }
    }
}
