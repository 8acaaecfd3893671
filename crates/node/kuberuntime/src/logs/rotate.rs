//! Rotates logs that exceed their size limit.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use orlop_cri_api::client::RuntimeClient;
use orlop_fs::LogPlace;

use crate::options::LogOptions;

/// A running container's log.
#[derive(Debug, Clone)]
pub(crate) struct RotateTarget {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
}

/// Rotates a log that exceeds its size limit: compresses older parts, renames the log with a
/// timestamp and has the runtime open a new one. A failure is undone if possible and retried in the
/// next round.
pub(crate) async fn rotate(
    runtime: &RuntimeClient,
    target: &RotateTarget,
    options: &LogOptions,
) -> Result<(), String> {
    let path = target.path.clone();
    let (max_size, keep) = (options.max_size, options.max_files.max(2) - 2);
    let done = orlop_pool::blocking(move || put_away(&path, max_size, keep)).await;
    let step = done
        .map_err(|e| e.to_string())?
        .map_err(|e| e.to_string())?;
    let (place, rotated) = match step {
        Step::Small => return Ok(()),
        Step::Gone => (None, OsString::new()),
        Step::Away(place, rotated) => (Some(place), rotated),
    };
    let reopened = runtime.reopen_container_log(&target.id).await;
    if reopened.is_err()
        && let Some(place) = place
        && !place.exists()
    {
        // Otherwise nobody would find the file that the container keeps writing to.
        let _ = place.rename(&rotated, place.name());
    }
    reopened.map_err(|error| error.to_string())
}

/// The next step for a log.
enum Step {
    /// Nothing: the log is small, or is a link.
    Small,
    /// The log is missing after an interrupted rotation, or was removed: the runtime reopens it.
    Gone,
    /// The log was renamed: the runtime opens a new one.
    Away(LogPlace, OsString),
}

fn put_away(path: &Path, max_size: u64, keep: usize) -> io::Result<Step> {
    let place = match LogPlace::find(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Step::Gone),
        found => found?,
    };
    match place.size() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Step::Gone),
        Err(error) => return Err(error),
        Ok(Some(size)) if max_size > 0 && size >= max_size => {}
        // The program that writes a link's target rotates it.
        Ok(_) => return Ok(Step::Small),
    }
    tidy(&place, keep)?;
    let mut rotated = stamped(&place);
    if place.read_part(&rotated).is_ok() {
        // A second rotation within a second: wait, so that no part is overwritten.
        std::thread::sleep(std::time::Duration::from_secs(1));
        rotated = stamped(&place);
    }
    place.rename(place.name(), &rotated)?;
    Ok(Step::Away(place, rotated))
}

fn stamped(place: &LogPlace) -> OsString {
    let stamp = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    place.suffixed(&format!(".{stamp}"))
}

/// Removes leftovers and the oldest parts, and compresses the rest.
fn tidy(place: &LogPlace, keep: usize) -> io::Result<()> {
    let mut parts = Vec::new();
    for part in place.parts()? {
        if part.as_encoded_bytes().ends_with(b".tmp") {
            place.remove(&part)?;
        } else {
            parts.push(part);
        }
    }
    let surplus = parts.len().saturating_sub(keep);
    for old in parts.drain(..surplus) {
        place.remove(&old)?;
    }
    for part in parts {
        if !part.as_encoded_bytes().ends_with(b".gz") {
            compress(place, &part)?;
        }
    }
    Ok(())
}

fn compress(place: &LogPlace, part: &OsStr) -> io::Result<()> {
    let temporary = suffixed(part, ".tmp");
    let out = place.create_part(&temporary)?;
    let mut packer = GzEncoder::new(out, Compression::default());
    io::copy(&mut place.read_part(part)?, &mut packer)?;
    packer.finish()?.sync_all()?;
    place.rename(&temporary, &suffixed(part, ".gz"))?;
    place.remove(part)
}

fn suffixed(name: &OsStr, suffix: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(suffix);
    name
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn older_parts_are_packed_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        for name in [
            "0.log",
            "0.log.20260101-000001.gz",
            "0.log.20260101-000002.gz",
            "0.log.20260101-000003",
            "0.log.20260101-000004.tmp",
            "1.log",
        ] {
            fs::write(dir.path().join(name), name).unwrap();
        }
        tidy(&LogPlace::find(&log).unwrap(), 2).unwrap();
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "0.log",
                "0.log.20260101-000002.gz",
                "0.log.20260101-000003.gz",
                "1.log"
            ]
        );
        let packed = File::open(dir.path().join("0.log.20260101-000003.gz")).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed)
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "0.log.20260101-000003");
    }

    #[test]
    fn links_that_a_container_left_among_its_logs_do_no_harm_to_what_they_lead_to() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        for name in ["0.log", "0.log.1", "0.log.2.tmp", "target"] {
            fs::write(outside.join(name), "precious").unwrap();
        }
        let own = dir.path().join("pods/pod/app");
        fs::create_dir_all(&own).unwrap();
        let log = own.join("0.log");
        symlink(outside.join("target"), &log).unwrap();
        // The size of a link's target does not count.
        assert!(matches!(put_away(&log, 1, 2).unwrap(), Step::Small));
        fs::remove_file(&log).unwrap();
        fs::write(&log, "line\n").unwrap();
        symlink(outside.join("target"), own.join("0.log.1")).unwrap();
        fs::create_dir(own.join("0.log.2")).unwrap();
        let Step::Away(place, rotated) = put_away(&log, 1, 2).unwrap() else {
            panic!("it is large enough");
        };
        assert!(!place.exists() && place.read_part(&rotated).is_ok());
        assert!(!own.join("0.log.1.gz").exists(), "nothing of it is packed");
        symlink(&outside, own.with_file_name("other")).unwrap();
        assert!(put_away(&own.with_file_name("other").join("0.log"), 1, 0).is_err());
        for name in ["0.log", "0.log.1", "0.log.2.tmp", "target"] {
            assert_eq!(fs::read_to_string(outside.join(name)).unwrap(), "precious");
        }
    }
}
