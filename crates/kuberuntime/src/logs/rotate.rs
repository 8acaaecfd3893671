use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use orlop_cri::client::RuntimeClient;

use crate::manager::LogOptions;

/// A running container's log.
#[derive(Debug, Clone)]
pub(crate) struct RotateTarget {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
}

/// Rotates a log that has grown past its size: older parts are compressed, the present one is
/// renamed with the time, and the runtime begins a new one. What fails is undone as far as that
/// goes, and tried again next time.
pub(crate) async fn rotate(
    runtime: &RuntimeClient,
    target: &RotateTarget,
    options: &LogOptions,
) -> Result<(), String> {
    let reopen = async || {
        let reopened = runtime.reopen_container_log(&target.id).await;
        reopened.map_err(|error| error.to_string())
    };
    let size = match fs::metadata(&target.path) {
        Ok(meta) => meta.len(),
        // A try before was cut short between its steps, or somebody took it away.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return reopen().await,
        Err(error) => return Err(error.to_string()),
    };
    if options.max_size == 0 || size < options.max_size {
        return Ok(());
    }
    let path = target.path.clone();
    let keep = options.max_files.max(2) - 2;
    let work = move || -> io::Result<PathBuf> {
        tidy(&path, keep)?;
        let stamp = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
        let mut rotated = suffixed(&path, &format!(".{stamp}"));
        if rotated.exists() {
            // Twice in a second: wait for the next rather than lose one.
            std::thread::sleep(std::time::Duration::from_secs(1));
            let stamp = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
            rotated = suffixed(&path, &format!(".{stamp}"));
        }
        fs::rename(&path, &rotated)?;
        Ok(rotated)
    };
    let done = tokio::task::spawn_blocking(work).await;
    let rotated = done
        .map_err(|e| e.to_string())?
        .map_err(|e| e.to_string())?;
    let reopened = reopen().await;
    if reopened.is_err() && !target.path.exists() {
        // Else nobody would find what the container goes on to write to.
        let _ = fs::rename(&rotated, &target.path);
    }
    reopened
}

/// Removes leftovers and the oldest parts, and compresses the others.
fn tidy(path: &Path, keep: usize) -> io::Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let prefix = format!("{}.", name.to_string_lossy());
    let mut parts: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir)?.flatten() {
        let found = entry.file_name().to_string_lossy().into_owned();
        if !found.starts_with(&prefix) {
            continue;
        }
        if entry.path().extension().is_some_and(|e| e == "tmp") {
            fs::remove_file(entry.path())?;
        } else {
            parts.push(entry.path());
        }
    }
    parts.sort();
    let surplus = parts.len().saturating_sub(keep);
    for old in parts.drain(..surplus) {
        fs::remove_file(old)?;
    }
    for part in parts {
        if part.extension().is_none_or(|e| e != "gz") {
            compress(&part)?;
        }
    }
    Ok(())
}

fn compress(part: &Path) -> io::Result<()> {
    let temporary = suffixed(part, ".tmp");
    let out = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)?;
    let mut packer = GzEncoder::new(out, Compression::default());
    io::copy(&mut File::open(part)?, &mut packer)?;
    packer.finish()?.sync_all()?;
    fs::rename(&temporary, suffixed(part, ".gz"))?;
    fs::remove_file(part)
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

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
        tidy(&log, 2).unwrap();
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
}
