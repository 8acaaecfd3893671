//! `orlop debug profile`: where the daemon's processor time goes.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use orlop_cli::say;
use orlop_profile::{Format, Names, Profile, Wanted, take, write};

use super::ask;
use crate::serve::DaemonArgs;

/// Samples for each second of processor time. No round number, so that it does not keep step with timers.
const FREQUENCY: u32 = 199;

/// What is to be sampled, and how it is written.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    #[command(flatten)]
    daemon: DaemonArgs,

    /// Duration of the recording in seconds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,

    /// File to write; - is standard output [default: orlop-profile.pb.gz, .svg or .folded]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Output format [default: by the extension of FILE, else pprof]
    #[arg(long, value_enum)]
    format: Option<Form>,

    /// PID of another process to profile: a keeper, or a daemon that does not answer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// File with debug symbols of the program, if they are neither in the binary nor installed
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,
}

/// How a profile is written.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    /// profile.proto for pprof, compressed with gzip
    Pprof,
    /// Flame graph for a browser (SVG)
    Flamegraph,
    /// One line per stack
    Folded,
}

impl ProfileArgs {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let form = self.form();
        let to = self.output.clone().unwrap_or_else(|| form.file());
        let is_stdout = [Path::new("-"), Path::new("/dev/stdout")].contains(&to.as_path());
        if is_stdout && matches!(form, Form::Pprof) && io::stdout().is_terminal() {
            bail!(
                "cannot write the pprof format to a terminal: give a file with --output, or use \
                 --format folded"
            );
        }
        let pid = match self.pid {
            Some(pid) => pid,
            None => self.daemon_pid()?,
        };
        let profile = take(&Wanted {
            pid,
            time: Duration::from_secs(self.seconds),
            frequency: FREQUENCY,
        })?;
        let names = Names::of(&profile, self.symbols.as_deref())?;
        let mut written = Vec::new();
        write(&profile, &names, form.into(), &mut written)?;
        if is_stdout {
            io::stdout().lock().write_all(&written)?;
        } else {
            orlop_disk::write_output(&to, 0o600, &written)
                .with_context(|| format!("cannot write {}", to.display()))?;
        }
        tell(&profile, &names, (!is_stdout).then_some(&to));
        Ok(())
    }

    fn form(&self) -> Form {
        let end = self.output.as_deref().and_then(Path::extension);
        self.format
            .unwrap_or(match end.and_then(|end| end.to_str()) {
                Some("svg") => Form::Flamegraph,
                Some("folded" | "txt") => Form::Folded,
                _ => Form::Pprof,
            })
    }

    fn daemon_pid(&self) -> anyhow::Result<u32> {
        let tasks = ask(&self.daemon, "Tasks").context("give the PID of the daemon with --pid")?;
        let pid = tasks["pid"].as_u64().and_then(|pid| pid.try_into().ok());
        pid.context(
            "the daemon is an older version that does not report its PID: give it with --pid",
        )
    }
}

impl Form {
    fn file(self) -> PathBuf {
        match self {
            Self::Pprof => "orlop-profile.pb.gz",
            Self::Flamegraph => "orlop-profile.svg",
            Self::Folded => "orlop-profile.folded",
        }
        .into()
    }
}

impl From<Form> for Format {
    fn from(form: Form) -> Self {
        match form {
            Form::Pprof => Self::Pprof,
            Form::Flamegraph => Self::Flamegraph,
            Form::Folded => Self::Folded,
        }
    }
}

/// Says what there is, and what is missing in it.
fn tell(profile: &Profile, names: &Names, to: Option<&PathBuf>) {
    let stacks = &profile.stacks;
    let place = to.map_or_else(String::new, |to| format!(", in {}", to.display()));
    say!(
        "{} samples in {:.1} s: {:.2} s of CPU time{place}",
        stacks.total(),
        profile.took.as_secs_f64(),
        profile.busy().as_secs_f64(),
    );
    if stacks.total() == 0 {
        say!("the process was idle: `orlop debug tasks` shows what it waits for");
    }
    for module in names.unknown() {
        say!(
            "no symbols for {module}: install its debug symbol package of the same version (deb: \
             orlop-dbgsym, rpm: orlop-debuginfo), or give its .debug file with --symbols"
        );
    }
    if !profile.with_kernel {
        say!("kernel functions are missing from the profile: run this command as root");
    }
    if stacks.torn() > 0 {
        say!("{} samples have incomplete stacks", stacks.torn());
    }
    if profile.lost > 0 {
        say!("{} samples were lost", profile.lost);
    }
    if profile.left_out > 0 {
        say!(
            "{} threads were not profiled: too many threads",
            profile.left_out
        );
    }
}
