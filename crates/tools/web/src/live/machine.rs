//! Resource usage of the machine, from `/proc`: the server runs on the node.

use std::collections::HashSet;
use std::time::Instant;

use orlop_fs::read_kernel_text;

use super::figures::Figures;

/// The machine, with earlier counters.
#[derive(Debug, Default)]
pub(super) struct Machine {
    cpu: Option<(u64, u64)>,
    network: Option<(Instant, u64, u64)>,
}

impl Machine {
    /// Takes a sample.
    pub(super) fn look(&mut self) -> Figures {
        let mut figures = Figures::default();
        let cpu = read_kernel_text("/proc/stat").ok();
        let cores = processors(cpu.as_deref().unwrap_or_default()) as f64;
        if let Some(now) = cpu.as_deref().and_then(processor)
            && let Some(then) = self.cpu.replace(now)
        {
            let busy = now.0.saturating_sub(then.0) as f64;
            let all = now.1.saturating_sub(then.1) as f64;
            if all > 0.0 {
                figures.cpu = (busy / all * cores) as f32;
            }
        }
        if let Some((total, available)) = memory() {
            figures.memory = total.saturating_sub(available) as f64;
        }
        let devices = read_kernel_text("/proc/net/dev").unwrap_or_default();
        let routes = read_kernel_text("/proc/net/route").unwrap_or_default();
        let (received, sent) = network(&devices, &routes);
        let now = Instant::now();
        if let Some((then, before_received, before_sent)) =
            self.network.replace((now, received, sent))
        {
            let passed = now.duration_since(then).as_secs_f64();
            if passed > 0.0 {
                figures.received =
                    (received.saturating_sub(before_received) as f64 / passed) as f32;
                figures.sent = (sent.saturating_sub(before_sent) as f64 / passed) as f32;
            }
        }
        figures
    }
}

/// Returns the CPUs of the machine, even if this process may use only some of them.
pub(super) fn cores() -> usize {
    processors(&read_kernel_text("/proc/stat").unwrap_or_default())
}

/// Counts the online CPUs: each has a line after the total.
fn processors(stat: &str) -> usize {
    let numbers = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
    let own = numbers.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    own.count().max(1)
}

/// Returns total and available bytes.
pub(super) fn memory() -> Option<(u64, u64)> {
    let text = read_kernel_text("/proc/meminfo").ok()?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let number = line.trim_start_matches(':').trim().trim_end_matches(" kB");
        number.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some((of("MemTotal")?, of("MemAvailable")?))
}

/// Returns the host name.
pub(super) fn name() -> String {
    let name = read_kernel_text("/proc/sys/kernel/hostname");
    name.unwrap_or_default().trim().to_owned()
}

/// Returns the size of the filesystem of a path in bytes. Blocks on it.
pub(crate) fn capacity(path: &str) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |found| found.f_blocks.saturating_mul(found.f_frsize))
}

/// Returns busy and total ticks (proc(5): user nice system idle iowait irq softirq steal).
fn processor(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map_while(|word| word.parse().ok())
        .collect();
    let all = ticks
        .iter()
        .fold(0_u64, |sum, one| sum.saturating_add(*one));
    let idle = ticks.get(3)?.saturating_add(*ticks.get(4)?);
    Some((all.saturating_sub(idle), all))
}

/// Returns bytes received and sent by the interfaces with a default route, else by all but the loopback.
fn network(devices: &str, routes: &str) -> (u64, u64) {
    let outward: HashSet<&str> = routes
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (name, to) = (words.next()?, words.next()?);
            (to == "00000000").then_some(name)
        })
        .collect();
    let mut sums = (0_u64, 0_u64);
    for line in devices.lines().skip(2) {
        let Some((name, numbers)) = line.split_once(':') else {
            continue;
        };
        let name = name.trim();
        let counts = if outward.is_empty() {
            name != "lo"
        } else {
            outward.contains(name)
        };
        if !counts {
            continue;
        }
        let number = |place: usize| -> u64 {
            let word = numbers.split_whitespace().nth(place);
            word.and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        sums = (
            sums.0.saturating_add(number(0)),
            sums.1.saturating_add(number(8)),
        );
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_worked_or_idle() {
        let stat = "cpu  10 1 5 100 20 0 4 0 0 0\ncpu0 1 1 1 1\n";
        assert_eq!(processor(stat), Some((20, 140)));
        assert_eq!(processor("intr 1"), None);
    }

    #[test]
    fn processors_are_those_of_the_machine() {
        let stat = "cpu  9 9\ncpu0 1 1\ncpu1 1 1\ncpu11 7\nintr 5\ncpus 1\n";
        assert_eq!(processors(stat), 3);
        assert_eq!(processors(""), 1);
        assert!(cores() >= std::thread::available_parallelism().unwrap().get());
    }

    #[test]
    fn the_interfaces_that_lead_out_are_counted() {
        let devices = "Inter-|\n face |\n  lo: 9 0 0 0 0 0 0 0 9 0\neth0: 100 1 0 0 0 0 0 0 50 1\nveth1: 7 0 0 0 0 0 0 0 7\n";
        let routes = "Iface Destination Gateway\neth0 00000000 0100000A\nveth1 0000000A 0\n";
        assert_eq!(network(devices, routes), (100, 50));
        assert_eq!(network(devices, "Iface\n"), (107, 57));
    }

    #[test]
    fn this_machine_has_memory_and_a_name() {
        let (total, available) = memory().unwrap();
        assert!(total > available && !name().is_empty() && capacity("/") > 0);
        let mut machine = Machine::default();
        assert!(machine.look().cpu.is_nan());
        std::thread::sleep(std::time::Duration::from_millis(100));
        let figures = machine.look();
        assert!(figures.cpu >= 0.0 && figures.memory > 0.0 && figures.received >= 0.0);
    }
}
