//! The log file that a container's log is written to.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use orlop_fs::LogPlace;
use tokio::time::sleep;

use super::lines::Piece;

/// An open log file. Every write appends whole lines.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: Arc<File>,
}

/// Pause before a write to a full disk is retried. The engine keeps the log meanwhile.
const FULL: Duration = Duration::from_secs(1);

impl LogFile {
    /// Opens or creates a log file for appending. Blocks.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        cut_torn_line(&file)?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
        })
    }

    /// Reopens the log at its path, where it may be a new file.
    pub(super) async fn reopen(&mut self) -> io::Result<()> {
        let path = self.path.clone();
        let opened = orlop_pool::blocking(move || open(&path)).await;
        self.file = Arc::new(opened.map_err(io::Error::other)??);
        Ok(())
    }

    /// Writes lines. Retries while the disk is full.
    pub(super) async fn write(&self, mut lines: Vec<u8>) -> io::Result<()> {
        let mut warned = false;
        loop {
            let file = Arc::clone(&self.file);
            let outcome = orlop_pool::blocking(move || {
                let mut written = 0;
                let error = loop {
                    match (&*file).write(&lines[written..]) {
                        _ if written == lines.len() => break None,
                        Ok(0) => break Some(io::ErrorKind::WriteZero.into()),
                        Ok(count) => written += count,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => break Some(error),
                    }
                };
                lines.drain(..written);
                (lines, error)
            });
            let (rest, error) = outcome.await.map_err(io::Error::other)?;
            match error {
                None => return Ok(()),
                Some(error) if error.kind() == io::ErrorKind::StorageFull => {
                    if !warned {
                        tracing::warn!(log = %self.path.display(), "the disk is full; pausing the container log");
                        warned = true;
                    }
                    lines = rest;
                    sleep(FULL).await;
                }
                Some(error) => return Err(error),
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    LogPlace::make(path)?.append()
}

/// Removes an incomplete last line, which a crash left. It is written again.
fn cut_torn_line(mut file: &File) -> io::Result<()> {
    const BLOCK: u64 = 4096;
    let length = file.seek(SeekFrom::End(0))?;
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = vec![0; (end - start) as usize];
        file.read_exact_at(&mut block, start)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    if end == length {
        return Ok(());
    }
    if file.metadata()?.nlink() > 1 {
        // The file has another hard link, so another owner may use it: it is not truncated.
        return file.write_all(b"\n");
    }
    file.set_len(end)
}

/// Appends a piece as lines of at most `longest` bytes of content.
pub(super) fn format(piece: &Piece, longest: usize, into: &mut Vec<u8>) {
    let time = Timestamp::from_nanosecond(piece.time.into()).unwrap_or_default();
    let mut rest = &piece.content[..];
    loop {
        let (content, more) = rest.split_at(rest.len().min(longest.max(1)));
        let tag = if piece.partial || !more.is_empty() {
            'P'
        } else {
            'F'
        };
        // Writing to memory does not fail.
        let _ = write!(into, "{time:.9} {} {tag} ", piece.stream);
        into.extend_from_slice(content);
        into.push(b'\n');
        rest = more;
        if rest.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orlop_cri_api::log::Stream;

    use super::*;

    #[test]
    fn pieces_become_lines() {
        let piece = |content: &'static str, partial| Piece {
            time: 1_500_000_000,
            stream: Stream::Stderr,
            content: Bytes::from_static(content.as_bytes()),
            partial,
        };
        let mut text = Vec::new();
        format(&piece("abcde", false), 3, &mut text);
        format(&piece("x", true), 3, &mut text);
        format(&piece("", false), 3, &mut text);
        let time = "1970-01-01T00:00:01.500000000Z stderr";
        assert_eq!(
            String::from_utf8(text).unwrap(),
            format!("{time} P abc\n{time} F de\n{time} P x\n{time} F \n")
        );
    }

    #[test]
    fn a_link_in_a_log_s_place_leads_the_daemon_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let precious = outside.join("0.log");
        std::fs::write(&precious, "no newline").unwrap();
        let log = dir.path().join("pods/pod/app/0.log");
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&precious, &log).unwrap();
        assert!(LogFile::open(&log).is_err());
        std::os::unix::fs::symlink(outside.join("new"), dir.path().join("pods/pod/app/1.log"))
            .unwrap();
        assert!(LogFile::open(&log.with_file_name("1.log")).is_err());
        assert!(!outside.join("new").exists());
        std::os::unix::fs::symlink(&outside, dir.path().join("pods/pod/other")).unwrap();
        assert!(LogFile::open(&dir.path().join("pods/pod/other/0.log")).is_err());
        // A hard link is opened like any other file, and is not truncated.
        std::fs::hard_link(&precious, log.with_file_name("2.log")).unwrap();
        LogFile::open(&log.with_file_name("2.log")).unwrap();
        let text = std::fs::read_to_string(&precious).unwrap();
        assert_eq!(text, "no newline\n");
    }

    #[tokio::test]
    async fn a_torn_line_is_cut_and_reopening_makes_a_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made/0.log");
        let mut log = LogFile::open(&path).unwrap();
        log.write(b"one\n".to_vec()).await.unwrap();
        let long = "x".repeat(10_000);
        log.write(long.into_bytes()).await.unwrap();
        drop(log);
        log = LogFile::open(&path).unwrap();
        log.write(b"two\n".to_vec()).await.unwrap();
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        log.reopen().await.unwrap();
        log.write(b"three\n".to_vec()).await.unwrap();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&dir.path().join("old")), "one\ntwo\n");
        assert_eq!(read(&path), "three\n");
    }
}
