//! A pull in a process of its own: to be killed, or to be given an environment.

use std::path::Path;
use std::process::{Command, Stdio};

use orlop_image_store::{Config, Images};

use crate::support::pull;

const ROOT: &str = "ORLOP_CHILD_ROOT";
const REFERENCE: &str = "ORLOP_CHILD_REFERENCE";
const CERTS: &str = "ORLOP_CHILD_CERTS";
const CREDENTIALS: &str = "ORLOP_CHILD_CREDENTIALS";

#[tokio::test]
#[ignore = "the process that other tests start"]
async fn child() {
    let root = std::env::var(ROOT).expect("run by other tests");
    let reference = std::env::var(REFERENCE).expect("run by other tests");
    let mut config = Config::new(root);
    config
        .registry_dirs
        .extend(std::env::var_os(CERTS).map(Into::into));
    config
        .credential_files
        .extend(std::env::var_os(CREDENTIALS).map(Into::into));
    let images = Images::open(config).await.unwrap();
    let pulled = pull(&images, &reference).await;
    images.close().await;
    if let Err(error) = pulled {
        eprintln!("PULL: {error}");
        std::process::exit(3);
    }
}

/// A process that pulls `reference` into a store at `root`, without a proxy unless told.
pub(crate) fn pulling(root: &Path, reference: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child::child", "--ignored", "--nocapture"])
        .env(ROOT, root)
        .env(REFERENCE, reference)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command
}

/// Registry settings for the process.
pub(crate) fn with_certs<'c>(command: &'c mut Command, certs: &Path) -> &'c mut Command {
    command.env(CERTS, certs)
}

/// The node's credentials for the process.
pub(crate) fn with_credentials<'c>(command: &'c mut Command, file: &Path) -> &'c mut Command {
    command.env(CREDENTIALS, file)
}

/// Runs it to its end; the error is the pull's.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().unwrap();
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    let said = text.lines().find_map(|line| line.strip_prefix("PULL: "));
    Err(said.expect("an error says why").to_owned())
}
