//! `version`: of what is called, and of this program.

use std::process::Command;
use std::time::Duration;

use crate::arguments::{Sandboxer, Settings};
use crate::error::Result;
use crate::proto::fields;
use crate::rpc::Client;
use crate::task::Endpoint;

/// A few lines.
const LONGEST: u64 = 16 * 1024;
const LIMIT: Duration = Duration::from_secs(5);

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let behind = match (&settings.inner, &settings.sandboxer) {
        (Some(inner), _) => first_line(&inner.program, "--version"),
        (None, Sandboxer::Proxy { address, name }) => Some(format!(
            "sandbox controller {name} {}",
            of_controller(&Endpoint::of_controller(address))?
        )),
        (None, _) if settings.shim.as_os_str().is_empty() => None,
        (None, _) => of_shim(settings),
    };
    let own = concat!("orlop-shim version ", env!("CARGO_PKG_VERSION"));
    match behind {
        Some(behind) => println!("{} behind {own}", behind.trim()),
        None => println!("{own}"),
    }
    Ok(())
}

/// containerd tells its version; others need not know the question, but have to be there.
fn of_controller(address: &Endpoint) -> Result<String> {
    let mut client = Client::connect(address)?;
    let service = "containerd.services.version.v1.Version";
    let answer = client.call(service, "Version", &[], Some(LIMIT));
    let told = answer.unwrap_or_default();
    let version = fields(&told).flatten().find(|field| field.number == 1);
    Ok(version.map_or_else(String::new, |version| {
        format!("of containerd {}", version.as_text())
    }))
}

/// `-v` prints the name and then, line by line, what it is made of.
fn of_shim(settings: &Settings) -> Option<String> {
    let name = settings.shim.file_name()?.to_string_lossy();
    let said = output(&settings.shim, "-v")?;
    let mut lines = said.lines();
    let version = lines.find_map(|line| line.trim().strip_prefix("Version:"));
    Some(match version {
        Some(version) => format!("{name} {}", version.trim()),
        None => name.into_owned(),
    })
}

fn first_line(program: &std::path::Path, option: &str) -> Option<String> {
    let said = output(program, option)?;
    Some(said.lines().next()?.trim().to_owned())
}

/// The caller limits the time.
fn output(program: &std::path::Path, option: &str) -> Option<String> {
    let mut child = Command::new(program)
        .arg(option)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .ok()?;
    let said = orlop_disk::read_start(child.stdout.take()?, LONGEST);
    child.wait().ok()?;
    Some(String::from_utf8_lossy(&said.ok()?).into_owned())
}
