//! A CNI network whose plugin blocks until it is released.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use crate::Scratch;

/// Configuration and plugin of the network. Dropping it releases all waiting plugins.
#[derive(Debug)]
pub struct HangingNetwork {
    scratch: Scratch,
}

impl HangingNetwork {
    /// Creates the files.
    pub fn new() -> Self {
        let network = Self {
            scratch: Scratch::new(),
        };
        let at = |name: &str| network.scratch.subdir(name);
        let conf = json!({"cniVersion": "1.0.0", "name": "hangs", "plugins": [{"type": "hangs"}]});
        std::fs::write(at("net.d").join("10-hangs.conflist"), conf.to_string()).expect("write");
        let fifo = network.fifo();
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("make a fifo");
        let text = format!(
            "#!/bin/sh\n\
             [ $CNI_COMMAND = ADD ] || exit 0\n\
             : > {there}/$$\n\
             [ ! -p {fifo} ] || read -r _ < {fifo}\n\
             echo '{{\"cniVersion\":\"1.0.0\",\"ips\":[{{\"address\":\"192.0.2.7/24\"}}]}}'\n",
            there = at("there").display(),
            fifo = fifo.display(),
        );
        let program = at("bin").join("hangs");
        std::fs::write(&program, text).expect("write");
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("chmod");
        network
    }

    /// Returns the section of a node's configuration, with the timeout of the plugin in seconds.
    pub fn section(&self, seconds: u32) -> String {
        let at = |name: &str| self.scratch.path(name).display().to_string();
        format!(
            "[network]\nconf_dir = {:?}\nbin_dirs = [{:?}]\ncache_dir = {:?}\n\
             plugin_timeout = \"{seconds}s\"\n",
            at("net.d"),
            at("bin"),
            at("cache"),
        )
    }

    /// Returns how many pods the plugin was called for.
    pub fn asked(&self) -> usize {
        let there = std::fs::read_dir(self.scratch.path("there"));
        there.expect("a directory").count()
    }

    /// Releases all waiting and future calls.
    pub fn release(&self) {
        let mut options = OpenOptions::new();
        let Ok(open) = options.read(true).write(true).open(self.fifo()) else {
            return;
        };
        // Open readers get the end of the file when it is closed, and there are no new readers.
        std::fs::remove_file(self.fifo()).expect("remove it");
        drop(open);
    }

    fn fifo(&self) -> PathBuf {
        self.scratch.path("fifo")
    }
}

impl Default for HangingNetwork {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for HangingNetwork {
    fn drop(&mut self) {
        self.release();
    }
}
