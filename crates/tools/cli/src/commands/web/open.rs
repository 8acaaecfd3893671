//! Opens the page in a browser. Command lines are visible to all users, so the URL with its token is passed in a file
//! that only its owner can read.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

/// A file that redirects to the URL, removed on drop.
pub(super) struct Opened(PathBuf);

impl Drop for Opened {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts a browser. If there is none, that is reported and is no error.
pub(super) fn open(address: &str) -> Option<Opened> {
    let opened = match leading_to(address, &env::temp_dir()) {
        Ok(opened) => opened,
        Err(error) => {
            say!("cannot write a file for the browser: {error}; open the address yourself");
            return None;
        }
    };
    let named = env::var_os("BROWSER").filter(|browser| !browser.is_empty());
    let program = named.unwrap_or_else(|| "xdg-open".into());
    let started = Command::new(&program)
        .arg(&opened.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(mut browser) => {
            tokio::spawn(async move { browser.wait().await });
            Some(opened)
        }
        Err(error) => {
            let program = program.display();
            say!("cannot start {program}: {error}; set BROWSER, or open the address yourself");
            None
        }
    }
}

fn leading_to(address: &str, directory: &Path) -> io::Result<Opened> {
    let name = format!("orlop-web-{:016x}.html", rand::random::<u64>());
    let path = directory.join(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    let opened = Opened(path);
    // The URL contains no characters that are special in HTML.
    writeln!(
        file,
        "<!doctype html><meta charset=utf-8><title>orlop</title>\
         <meta http-equiv=refresh content=\"0;url={address}\"><a href=\"{address}\">orlop</a>"
    )?;
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_its_owner_s_alone_and_does_not_stay() {
        let dir = tempfile::tempdir().unwrap();
        let opened = leading_to("http://127.0.0.1:1/?token=a", dir.path()).unwrap();
        let path = opened.0.clone();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("url=http://127.0.0.1:1/?token=a"));
        drop(opened);
        assert!(!path.exists());
    }
}
