//! Files of hostile size or type in place of a text.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Larger than any limit of the daemon.
const LARGE: u64 = 768 << 20;
/// Memory that reading up to the largest limit may use.
const MEMORY: u64 = 400 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the errors of a reader for an endless file and for a pipe without a writer. Asserts that they come soon and
/// that the file is not read into memory completely.
pub fn said_of_hostile_files<R>(name: &str, read: R) -> [String; 2]
where
    R: Fn(&Path) -> String + Clone + Send + 'static,
{
    ["large", "pipe"].map(|kind| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if kind == "large" {
            std::fs::File::create(&path)
                .unwrap()
                .set_len(LARGE)
                .unwrap();
        } else {
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap();
        }
        let before = most_memory();
        let (tell, told) = channel();
        let (read, of) = (read.clone(), path.clone());
        std::thread::spawn(move || tell.send(read(&of)));
        let said = told.recv_timeout(PATIENCE);
        let said = said.unwrap_or_else(|_| panic!("who reads a {kind} {name} waits"));
        let took = most_memory() - before;
        assert!(took < MEMORY, "a {kind} {name} takes {took} bytes");
        said.replace(&dir.path().display().to_string(), "DIR")
    })
}

/// Returns the peak memory of this process in bytes.
pub fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.unwrap().parse::<u64>().unwrap() << 10
}
