//! Records the data of a layer's archive other than file contents. With this tape, the exact archive can be
//! reconstructed, to check the layer's digest or to export it, without storing it twice.

mod format;
mod player;
mod recorder;

pub(crate) use player::{check_lengths, play};
pub(crate) use recorder::Recorder;

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;
    use crate::limits::Limits;
    use crate::unpack::{Layer, LayerMemory, unpack};
    use crate::{Digest, Error};

    fn round_trip(archive: &[u8]) -> (tempfile::TempDir, bool, Result<Vec<u8>, Error>) {
        let dir = tempfile::tempdir().unwrap();
        let (root, tape) = (dir.path().join("fs"), dir.path().join("tape"));
        std::fs::create_dir(&root).unwrap();
        let recorder = Recorder::create(&tape).unwrap();
        let layer = Layer {
            what: "layer",
            blob: None,
            diff_id: Some(Digest::of(archive)),
            secret: None,
            file: None,
            abandon: &|| {},
            spending: &(),
            memory: &LayerMemory::of_client(),
        };
        let (_, recorder) = unpack(
            &layer,
            Cursor::new(archive),
            recorder,
            &root,
            &Limits::default(),
        )
        .unwrap();
        let replayable = recorder.finish().unwrap();
        let mut again = Vec::new();
        let played = play(&tape, &root, &mut again).map(|()| again);
        (dir, replayable, played)
    }

    fn archive(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        build(&mut builder);
        builder.into_inner().unwrap()
    }

    fn file(builder: &mut tar::Builder<Vec<u8>>, path: &str, content: &[u8]) {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, content).unwrap();
    }

    #[test]
    fn an_archive_is_put_together_again_byte_for_byte() {
        let long = "long/".repeat(40) + "name";
        let mut bytes = archive(|builder| {
            file(builder, "a", &[1; 1000]);
            file(builder, &long, b"");
            file(builder, ".wh.gone", b"not empty");
            file(builder, "big", &vec![2; 300_000]);
        });
        // Some programs write garbage after the end.
        bytes.extend_from_slice(b"rubbish");
        let (_dir, replayable, again) = round_trip(&bytes);
        assert!(replayable);
        assert!(again.unwrap() == bytes);
    }

    #[test]
    fn a_changed_or_missing_file_shows() {
        let bytes = archive(|builder| file(builder, "a", &[1; 1000]));
        let (dir, _, _) = round_trip(&bytes);
        let (root, tape) = (dir.path().join("fs"), dir.path().join("tape"));
        std::fs::write(root.join("a"), [3; 1000]).unwrap();
        let mut again = Vec::new();
        play(&tape, &root, &mut again).unwrap();
        assert!(again != bytes);
        std::fs::write(root.join("a"), [1; 10]).unwrap();
        assert!(play(&tape, &root, &mut Vec::new()).is_err());
        std::fs::remove_file(root.join("a")).unwrap();
        assert!(play(&tape, &root, &mut Vec::new()).is_err());
    }

    #[test]
    fn an_overwritten_file_makes_an_archive_that_cannot_be_replayed() {
        let bytes = archive(|builder| {
            file(builder, "a", b"first");
            file(builder, "a", b"other");
        });
        let (_dir, replayable, _) = round_trip(&bytes);
        assert!(!replayable);
    }

    #[test]
    fn a_damaged_tape_is_an_error_not_a_panic() {
        let bytes = archive(|builder| file(builder, "a", &[1; 1000]));
        let (dir, _, _) = round_trip(&bytes);
        let tape = dir.path().join("tape");
        let whole = std::fs::read(&tape).unwrap();
        std::fs::write(&tape, &whole[..whole.len() / 2]).unwrap();
        assert!(play(&tape, &dir.path().join("fs"), &mut Vec::new()).is_err());
        let reader = BufReader::new(Cursor::new(whole));
        assert!(zstd::stream::read::Decoder::with_buffer(reader).is_ok());
    }
}
