//! Of what a table is: the commit, the programs, the machine.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use orlop_testkit::machine;

use crate::asked::{Asked, Backend};

/// In a few lines.
pub(crate) fn told(asked: &Asked) -> anyhow::Result<String> {
    let build = if orlop_testkit::node::is_release() {
        "optimised"
    } else {
        "unoptimised"
    };
    let kernel = rustix::system::uname();
    let groups = if machine::is_cgroup_v2() { 2 } else { 1 };
    let mut lines = vec![
        format!(
            "orlop {}, {build}, {}",
            commit()?,
            jiff::Zoned::now().date()
        ),
        format!(
            "{} processors ({}), Linux {}, cgroup v{groups}, driver {}",
            std::thread::available_parallelism()?,
            processor(),
            kernel.release().to_string_lossy(),
            machine::CgroupDriver::of_tests().name(),
        ),
    ];
    let mut programs = Vec::new();
    if let Some(critest) = &asked.critest {
        programs.push(version("critest", &critest.program, &["-version"])?);
    }
    if let Some(kubelet) = &asked.kubelet {
        programs.push(version("kubelet", &kubelet.program, &["--version"])?);
        programs.push(version(
            "kubectl",
            &kubelet.kubectl,
            &["version", "--client"],
        )?);
    }
    for backend in &asked.backends {
        programs.push(match backend {
            Backend::Native(handler) => {
                version(&handler.name, Path::new(&handler.path), &["--version"])?
            }
            Backend::Docker => {
                let engine = machine::program("dockerd").map_err(anyhow::Error::msg)?;
                version("dockerd", &engine, &["--version"])?
            }
        });
    }
    lines.push(programs.join("; "));
    Ok(lines.join("  \n"))
}

/// The commit that is checked out, and whether files differ from it.
fn commit() -> anyhow::Result<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let git = |args: &[&str]| -> anyhow::Result<String> {
        let output = Command::new("git").arg("-C").arg(here).args(args).output();
        let output = output.context("asking git for the commit")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Ok(match (commit.is_empty(), changed.is_empty()) {
        (true, _) => "of no known commit".to_owned(),
        (false, true) => commit,
        (false, false) => format!("{commit} with changes"),
    })
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = line.map(|rest| rest.trim_start_matches([' ', '\t', ':']));
    name.unwrap_or("of an unknown kind").to_owned()
}

/// The first line that a program says of its version, with its name unless that begins so.
fn version(name: &str, program: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(args)
        .env("KUBECONFIG", "/dev/null")
        .output()
        .with_context(|| format!("asking {} for its version", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().next().unwrap_or_default().trim();
    anyhow::ensure!(!line.is_empty(), "{} tells no version", program.display());
    if line.to_lowercase().starts_with(&name.to_lowercase()) {
        return Ok(line.to_owned());
    }
    Ok(format!("{name}: {line}"))
}
