//! `update`: changes the limits of a container.

use std::path::Path;

use orlop_oci_types::{BlockIo, Cpu, Memory, Pids, Resources};

use super::command::{Call, HELP, Verb};
use crate::args::{FlagsEnd, Parsed, valued};
use crate::error::{Error, Result};
use crate::json;
use crate::rdt;
use crate::state::Status;

pub(super) const VERB: Verb = Verb {
    name: "update",
    about: "update container resource constraints",
    arguments: "CONTAINER",
    flags: &[
        HELP,
        valued(
            "resources",
            Some('r'),
            "FILE|-",
            "path to a JSON file with linux.resources of a config.json; other flags are then ignored",
        ),
        valued(
            "blkio-weight",
            None,
            "NUMBER",
            "set the block IO weight, 10 to 1000",
        ),
        valued("cpu-period", None, "MICROSECONDS", "set the CPU CFS period"),
        valued(
            "cpu-quota",
            None,
            "MICROSECONDS",
            "set the CPU CFS quota for each period, -1 for no limit",
        ),
        valued("cpu-burst", None, "MICROSECONDS", "set the CPU CFS burst"),
        valued(
            "cpu-share",
            None,
            "NUMBER",
            "set the CPU shares, 2 to 262144",
        ),
        valued(
            "cpu-rt-period",
            None,
            "MICROSECONDS",
            "set the CPU real-time period",
        ),
        valued(
            "cpu-rt-runtime",
            None,
            "MICROSECONDS",
            "set the CPU real-time runtime for each period",
        ),
        valued(
            "cpuset-cpus",
            None,
            "LIST",
            "set the CPUs that the container may use, for example 0-3,7",
        ),
        valued(
            "cpuset-mems",
            None,
            "LIST",
            "set the memory nodes that the container may use, for example 0-1",
        ),
        valued("kernel-memory", None, "BYTES", "ignored"),
        valued("kernel-memory-tcp", None, "BYTES", "ignored"),
        valued(
            "memory",
            None,
            "BYTES",
            "set the memory limit, -1 for no limit",
        ),
        valued(
            "cpu-idle",
            None,
            "0|1",
            "set SCHED_IDLE for the cgroup (1) or reset it (0)",
        ),
        valued(
            "memory-reservation",
            None,
            "BYTES",
            "set the memory reservation (soft limit)",
        ),
        valued(
            "memory-swap",
            None,
            "BYTES",
            "set the limit of memory plus swap, -1 for no limit",
        ),
        valued(
            "pids-limit",
            None,
            "NUMBER",
            "set the maximum number of processes and threads, -1 for no limit",
        ),
        valued(
            "l3-cache-schema",
            None,
            "SCHEMA",
            "set the Intel RDT L3 cache schema",
        ),
        valued(
            "mem-bw-schema",
            None,
            "SCHEMA",
            "set the Intel RDT memory bandwidth schema",
        ),
    ],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

fn run(call: &Call<'_>) -> Result<u8> {
    let parsed = call.parsed;
    let (dir, state) = call.known()?;
    let resources = match parsed.path("resources") {
        Some(path) if path == Path::new("-") => {
            json::read_from(std::io::stdin(), "standard input")?
        }
        Some(path) => json::read_given(&path)?,
        None => of_flags(parsed)?,
    };
    if let Some(memory) = &resources.memory
        && (memory.kernel.is_some() || memory.kernel_tcp.is_some())
    {
        call.log
            .warn("Kernel memory settings are ignored and will be removed");
    }
    if state.status(&dir) == Status::Stopped {
        return Err(Error::new("container not running"));
    }
    let schema = |name| Ok::<_, Error>(parsed.text(name)?.unwrap_or_default());
    let (cache, bandwidth) = (schema("l3-cache-schema")?, schema("mem-bw-schema")?);
    rdt::check_update(state.rdt.as_ref(), &cache, &bandwidth)?;
    state.cgroup.update(&resources)?;
    match &state.rdt {
        Some(rdt) => rdt.update(&cache, &bandwidth).map(|()| 0),
        None => Ok(0),
    }
}

fn of_flags(parsed: &Parsed) -> Result<Resources> {
    let text = |name: &str| Ok::<_, Error>(parsed.text(name)?.filter(|it| !it.is_empty()));
    let bytes = |name: &str| text(name)?.map(|it| bytes(name, &it)).transpose();
    Ok(Resources {
        memory: Some(Memory {
            limit: bytes("memory")?,
            reservation: bytes("memory-reservation")?,
            swap: bytes("memory-swap")?,
            kernel: bytes("kernel-memory")?,
            kernel_tcp: bytes("kernel-memory-tcp")?,
            ..Memory::default()
        }),
        cpu: Some(Cpu {
            shares: number(parsed, "cpu-share")?,
            quota: number(parsed, "cpu-quota")?,
            burst: number(parsed, "cpu-burst")?,
            period: number(parsed, "cpu-period")?,
            realtime_runtime: number(parsed, "cpu-rt-runtime")?,
            realtime_period: number(parsed, "cpu-rt-period")?,
            cpus: text("cpuset-cpus")?.unwrap_or_default(),
            mems: text("cpuset-mems")?.unwrap_or_default(),
            idle: number(parsed, "cpu-idle")?,
        }),
        pids: Some(Pids {
            limit: number(parsed, "pids-limit")?,
        }),
        block_io: Some(BlockIo {
            weight: number(parsed, "blkio-weight")?,
            ..BlockIo::default()
        }),
        ..Resources::default()
    })
}

/// Parses a number; an empty value counts as absent, because scripts pass it so.
fn number<T: std::str::FromStr>(parsed: &Parsed, name: &str) -> Result<Option<T>> {
    let Some(text) = parsed.text(name)?.filter(|it| !it.is_empty()) else {
        return Ok(None);
    };
    let number = text.parse();
    let wrong = |_| {
        Error::new(format!(
            "invalid value for {name}: {text:?} is not a valid number"
        ))
    };
    number.map(Some).map_err(wrong)
}

/// Parses a size in docker's format: `64m`, `1.5GiB`, `100 kb`, with units in steps of 1024; -1 for no limit.
fn bytes(name: &str, text: &str) -> Result<i64> {
    if text == "-1" {
        return Ok(-1);
    }
    let wrong = || {
        Error::new(format!(
            "invalid value for {name}: {text:?} is not a size; use a form such as 64m or 1.5GiB"
        ))
    };
    let end = text
        .find(|it: char| !it.is_ascii_digit() && it != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.strip_prefix(' ').unwrap_or(unit).to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let letter = unit.strip_suffix('i').unwrap_or(unit);
    let step = ["", "k", "m", "g", "t", "p"]
        .iter()
        .position(|it| *it == letter);
    let step = step
        .filter(|step| *step > 0 || !unit.ends_with('i'))
        .ok_or_else(wrong)?;
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * 1024f64.powi(step as i32);
    if bytes > i64::MAX as f64 {
        return Err(wrong());
    }
    Ok(bytes as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_docker_writes_them() {
        for (text, value) in [
            ("0", 0),
            ("-1", -1),
            ("12345", 12345),
            ("64m", 64 << 20),
            ("64MiB", 64 << 20),
            ("1.5g", 3 << 29),
            ("100 kb", 100 << 10),
            ("7B", 7),
        ] {
            assert_eq!(bytes("memory", text).unwrap(), value, "{text}");
        }
        for text in [
            "", "m", "-2", "1x", "1ib", "1.2.3", "9e99", "1  k", "9999999p",
        ] {
            let error = bytes("memory", text).unwrap_err().to_string();
            assert!(
                error.starts_with("invalid value for memory: "),
                "{text}: {error}"
            );
        }
    }
}
