//! `version`: prints the versions of the shim or controller and of this program.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use orlop_containerd_api::services::version::VersionResponse;

use crate::arguments::{Sandboxer, Settings};
use crate::controller;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::rpc::Client;

/// Maximum size of the output.
const LONGEST: u64 = 16 * 1024;
const LIMIT: Duration = Duration::from_secs(5);

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let behind = match (&settings.inner, &settings.sandboxer) {
        (Some(inner), _) => first_line(&inner.program, "--version")?,
        (None, Sandboxer::Proxy { address, name }) => Some(format!(
            "sandbox controller {name} {}",
            of_controller(address, name)?
        )),
        (None, _) if settings.shim.as_os_str().is_empty() => None,
        (None, _) => of_shim(settings)?,
    };
    let own = concat!("orlop-shim version ", env!("CARGO_PKG_VERSION"));
    match behind {
        Some(behind) => println!("{} behind {own}", behind.trim()),
        None => println!("{own}"),
    }
    Ok(())
}

/// Returns the version of containerd. Other servers need not support the query, but must be running controllers.
fn of_controller(address: &Path, name: &str) -> Result<String> {
    controller::is_one(address, name, LIMIT)?;
    let mut client = Client::connect(&Endpoint::of_controller(address))?;
    let service = "containerd.services.version.v1.Version";
    let told = client.call(service, "Version", &(), Some(LIMIT));
    Ok(told.map_or_else(
        |_| String::new(),
        |told: VersionResponse| format!("of containerd {}", told.version),
    ))
}

/// Runs the shim with `-v`, which prints its name and then its details line by line.
fn of_shim(settings: &Settings) -> Result<Option<String>> {
    let name = settings.shim.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let said = output(&settings.shim, "-v")?;
    let mut lines = said.lines();
    let version = lines.find_map(|line| line.trim().strip_prefix("Version:"));
    Ok(Some(match version {
        Some(version) => format!("{name} {}", version.trim()),
        None => name.into_owned(),
    }))
}

fn first_line(program: &Path, option: &str) -> Result<Option<String>> {
    let said = output(program, option)?;
    Ok(said.lines().next().map(|line| line.trim().to_owned()))
}

/// Runs a program and returns its output. An unexpected output is accepted, but the program must be executable. The
/// caller sets the time limit.
fn output(program: &Path, option: &str) -> Result<String> {
    let mut child = Command::new(program)
        .arg(option)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Error::program(program, &error))?;
    let said = child.stdout.take();
    let said = said.map(|said| orlop_fs::read_start(said, LONGEST));
    let _ = child.wait();
    let said = said.and_then(std::io::Result::ok).unwrap_or_default();
    Ok(String::from_utf8_lossy(&said).into_owned())
}
