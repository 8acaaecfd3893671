//! Resource usage of the system containers: this agent, the runtime, and all pods together.

use std::os::unix::net::UnixStream;
use std::path::Path;

use orlop_cri_api::Endpoint;
use orlop_kuberuntime::manager::CgroupUsage;

/// The usage of a system container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Start time, in nanoseconds since 1970.
    pub(super) started: Option<i64>,
    /// CPU time in nanoseconds.
    pub(super) cpu: Option<u64>,
    pub(super) memory: CgroupUsage,
}

/// Measures this agent's process.
pub(super) fn own(boot: Option<i64>) -> Option<Part> {
    process(Path::new("/proc/self"), boot)
}

/// Measures the process that listens on the runtime's socket; `None` if the service manager listens
/// for it (socket activation).
pub(super) fn runtime(endpoint: &Endpoint, boot: Option<i64>) -> Option<Part> {
    let Endpoint::Unix(path) = endpoint else {
        return None;
    };
    let stream = UnixStream::connect(path).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
    let pid = peer.pid.as_raw_nonzero().get();
    (pid > 1).then(|| process(&Path::new("/proc").join(pid.to_string()), boot))?
}

fn process(dir: &Path, boot: Option<i64>) -> Option<Part> {
    let stat = orlop_fs::read_kernel_text(dir.join("stat")).ok()?;
    let status = orlop_fs::read_kernel_text(dir.join("status")).ok()?;
    parse(
        &stat,
        &status,
        boot,
        rustix::param::clock_ticks_per_second(),
    )
}

/// Parses `stat` and `status` of proc(5).
fn parse(stat: &str, status: &str, boot: Option<i64>, ticks: u64) -> Option<Part> {
    // The process name may contain blanks and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let nanos = |n: u64| n.saturating_mul(1_000_000_000 / ticks.max(1));
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let amount = line.split_ascii_whitespace().next()?.parse::<u64>().ok()?;
        Some(amount.saturating_mul(1024))
    };
    let resident = kilobytes("VmRSS:");
    Some(Part {
        // `starttime`, counted from the state field.
        started: boot.zip(number(19)).and_then(|(boot, at)| {
            let since = i64::try_from(nanos(at)).ok()?;
            boot.checked_add(since)
        }),
        cpu: Some(nanos(number(11)?.saturating_add(number(12)?))),
        memory: CgroupUsage {
            cpu: None,
            usage: resident,
            // The kernel can reclaim file pages.
            working_set: kilobytes("RssAnon:").or(resident),
            rss: kilobytes("RssAnon:"),
            page_faults: number(7),
            major_page_faults: number(9),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 3 0 250 50 0 0 20 0 5 0 1000 0 0";
        let status = "Name:\ta\nVmRSS:\t    2048 kB\nRssAnon:\t    1024 kB\n";
        let part = parse(stat, status, Some(5_000_000_000), 100).unwrap();
        assert_eq!(part.started, Some(15_000_000_000));
        assert_eq!(part.cpu, Some(3_000_000_000));
        assert_eq!(part.memory.usage, Some(2 << 20));
        assert_eq!(part.memory.working_set, Some(1 << 20));
        assert_eq!(
            (part.memory.page_faults, part.memory.major_page_faults),
            (Some(100), Some(3))
        );
        assert_eq!(parse("", "", None, 100), None);
        let own = own(Some(0)).unwrap();
        assert!(own.cpu.is_some() && own.memory.usage > Some(1 << 20));
    }
}
