//! Start of plugins by the runtime: programs in a directory, named `NN-name`.

use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::config::Config;
use crate::connection::Connection;
use crate::nri::Nri;
use crate::plugin::parse_name;
use crate::register::{Launched, register};
use crate::spawn::pass_socket;

/// Size limit of a configuration, which must fit into one message.
const MAX_CONFIG: u64 = 2 << 20;

/// Length at which lines of a plugin's output are split.
const MAX_LINE: u64 = 4096;

/// Time for a plugin to exit after its connection is closed.
const GRACE: Duration = Duration::from_secs(1);

/// A program in the plugins' directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    path: PathBuf,
    index: String,
    name: String,
    config: String,
}

/// Starts all plugins concurrently, and waits until each has registered or failed.
pub(crate) async fn launch(nri: &Nri) {
    let Some(config) = nri.config() else {
        return;
    };
    let found = orlop_pool::blocking(move || discover(&config)).await;
    let launches = found
        .unwrap_or_default()
        .into_iter()
        .map(|found| launch_one(nri, found));
    join_all(launches).await;
}

async fn launch_one(nri: &Nri, found: Found) {
    let name = format!("{}-{}", found.index, found.name);
    if let Err(problem) = start(nri, found).await {
        tracing::error!(plugin = name, problem, "cannot start an NRI plugin");
    }
}

async fn start(nri: &Nri, found: Found) -> Result<(), String> {
    let (own, theirs) =
        UnixStream::pair().map_err(|error| format!("cannot create its socket: {error}"))?;
    let theirs = theirs
        .into_std()
        .and_then(|socket| socket.set_nonblocking(false).map(|()| socket))
        .map_err(|error| format!("cannot create its socket: {error}"))?;
    let mut command = Command::new(&found.path);
    command
        .env_clear()
        .env("NRI_PLUGIN_NAME", &found.name)
        .env("NRI_PLUGIN_IDX", &found.index)
        .env("NRI_PLUGIN_SOCKET", "3")
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    pass_socket(&mut command, theirs.into())
        .map_err(|error| format!("cannot pass the socket to it: {error}"))?;
    let started = command.spawn();
    // This also closes our copy of the plugin's end of the socket.
    drop(command);
    let mut child =
        started.map_err(|error| format!("starting {}: {error}", found.path.display()))?;
    let name = format!("{}-{}", found.index, found.name);
    log_output(nri, &name, child.stdout.take());
    log_output(nri, &name, child.stderr.take());
    let launched = Launched {
        index: found.index,
        name: found.name,
        config: found.config,
        pid: child.id(),
    };
    let plugin = register(nri, own, Some(launched)).await?;
    let connection = plugin.connection.clone();
    let taken = nri.take_in(plugin).await;
    nri.attend(watch(child, connection, name));
    taken
}

/// Closes the connection when the program exits, and kills the program after the connection has closed.
async fn watch(mut child: Child, connection: Connection, name: String) {
    let ended = tokio::select! {
        ended = child.wait() => Some(ended),
        _ = connection.closed() => timeout(GRACE, child.wait()).await.ok(),
    };
    match ended {
        Some(Ok(status)) => {
            tracing::info!(plugin = name, %status, "an NRI plugin's process exited");
            connection.close(format!("its process exited: {status}"));
        }
        Some(Err(error)) => tracing::warn!(plugin = name, %error, "cannot wait for an NRI plugin"),
        None => {
            if let Err(error) = child.kill().await {
                tracing::warn!(plugin = name, %error, "cannot kill an NRI plugin");
            }
        }
    }
}

fn log_output(nri: &Nri, plugin: &str, output: Option<impl AsyncRead + Unpin + Send + 'static>) {
    let Some(output) = output else { return };
    let plugin = plugin.to_owned();
    nri.attend(async move {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut piece = (&mut reader).take(MAX_LINE);
            match piece.read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    let text = String::from_utf8_lossy(&line);
                    let text = text.trim_end();
                    if !text.is_empty() {
                        tracing::info!(plugin, "{}", printable(text));
                    }
                }
            }
        }
    });
}

/// Replaces control characters, which could manipulate the terminal of a user who reads the log.
fn printable(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
}

/// Finds the programs, in the order of their names. Blocks.
fn discover(config: &Config) -> Vec<Found> {
    let dir = &config.plugin_dir;
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                tracing::warn!(path = %dir.display(), %error, "cannot read the directory of NRI plugins");
            }
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        match look(&path, &config.plugin_config_dir) {
            Ok(Some(one)) => found.push(one),
            Ok(None) => {}
            Err(problem) => {
                tracing::warn!(path = %path.display(), problem, "skipping an NRI plugin");
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn look(path: &Path, configs: &Path) -> Result<Option<Found>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Ok(None);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (index, name) = parse_name(&name)?;
    Ok(Some(Found {
        path: path.to_owned(),
        index: index.to_owned(),
        name: name.to_owned(),
        config: config_of(configs, index, name)?,
    }))
}

/// Reads `NN-name.conf`, or else `name.conf`.
fn config_of(dir: &Path, index: &str, name: &str) -> Result<String, String> {
    for file in [format!("{index}-{name}.conf"), format!("{name}.conf")] {
        let path = dir.join(file);
        match read(&path) {
            Ok(text) => return Ok(text),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(format!("reading {}: {error}", path.display())),
        }
    }
    Ok(String::new())
}

fn read(path: &Path) -> io::Result<String> {
    orlop_fs::read_text(path, MAX_CONFIG)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Listen;

    #[test]
    fn programs_are_found_with_their_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let (plugins, configs) = (dir.path().join("plugins"), dir.path().join("conf.d"));
        let config = Config {
            runtime: (String::new(), String::new()),
            listen: Listen::Never,
            plugin_dir: plugins.clone(),
            plugin_config_dir: configs.clone(),
            registration_timeout: GRACE,
            request_timeout: GRACE,
            validator: None,
        };
        assert_eq!(discover(&config), [], "no directory, no plugins");
        std::fs::create_dir(&plugins).unwrap();
        std::fs::create_dir(&configs).unwrap();
        for (name, mode) in [
            ("20-b", 0o755),
            ("10-a", 0o700),
            ("30-c", 0o644),
            ("bad", 0o755),
        ] {
            let path = plugins.join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::fs::create_dir(plugins.join("40-dir")).unwrap();
        std::fs::write(configs.join("a.conf"), "general").unwrap();
        std::fs::write(configs.join("10-a.conf"), "special").unwrap();
        std::fs::write(configs.join("b.conf"), "of b").unwrap();
        let found = discover(&config);
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.index.as_str(), one.name.as_str(), one.config.as_str()))
            .collect();
        assert_eq!(found, [("10", "a", "special"), ("20", "b", "of b")]);
    }
}
