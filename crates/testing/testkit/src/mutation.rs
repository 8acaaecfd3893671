//! Bounded fuzzing with the stable compiler: examples are mutated repeatedly, and each mutation is tested.
//!
//! Each run starts with a different seed. A failure prints the input and its seed:
//!
//! | variable | effect |
//! |---|---|
//! | `ORLOP_FUZZ_SECONDS=60` | fuzzing time of each target instead of one second |
//! | `ORLOP_FUZZ_SEED=N` | tests the input of one seed |
//! | `ORLOP_FUZZ_INPUT=FILE` | tests the bytes of a file, for examples that differ in each run (such as new keys) |
//! | `ORLOP_FUZZ_EXAMPLES=DIRECTORY` | writes the examples there, as a corpus for `.ci/fuzz`, and tests nothing |
//! | `ORLOP_FUZZ_BASE=N` | starts at this seed, to repeat the inputs of another run |
//!
//! The test of a target has `fuzzed` in its name, module or file: `.ci/fuzz` selects it by that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::machine;

/// Default fuzzing time of a target ([`SECONDS`]).
const BUDGET: Duration = Duration::from_secs(1);
/// Time limit of one input, on a busy machine.
const INPUT_LIMIT: Duration = Duration::from_secs(20);
/// Minimum number of inputs, even on a slow machine.
const LEAST: u64 = 50;
/// Fuzzing time of each target in seconds.
const SECONDS: &str = "ORLOP_FUZZ_SECONDS";
/// A single seed to test.
const SEED: &str = "ORLOP_FUZZ_SEED";
/// First seed.
const BASE: &str = "ORLOP_FUZZ_BASE";
/// File with a single input to test.
const INPUT: &str = "ORLOP_FUZZ_INPUT";
/// Directory for the examples.
const EXAMPLES: &str = "ORLOP_FUZZ_EXAMPLES";
/// Mark in the name of a target's test.
const MARK: &str = "fuzzed";

type Repair = fn(&mut Vec<u8>, &mut Chance);

/// Repairs the checksums of a tar archive's headers: a parser stops at a wrong one.
pub fn mend_tar_checksums(archive: &mut [u8]) {
    for block in archive.chunks_exact_mut(512) {
        if &block[257..262] == b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}

/// Examples of a target, and knowledge of its input format.
#[derive(Debug, Default)]
pub struct Fuzz {
    examples: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    repair: Option<Repair>,
}

impl Fuzz {
    /// Creates an empty set; at least one example must be added.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input that is valid, or invalid in an interesting way.
    pub fn example(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.examples.push(bytes.as_ref().to_vec());
        self
    }

    /// Adds words of the input format, which are inserted because they lead further than noise.
    pub fn words<W: AsRef<[u8]>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        let words = words.into_iter().map(|word| word.as_ref().to_vec());
        self.words.extend(words);
        self
    }

    /// Sets a function that repairs lengths or checksums that would fail the first check. It is applied to most inputs,
    /// not to all.
    pub fn repair(mut self, repair: Repair) -> Self {
        self.repair = Some(repair);
        self
    }

    /// Tests mutated examples until the time is over. Panics if `target` does, and ends the process if `target` hangs;
    /// both print how to repeat the failure.
    pub fn run(&self, target: impl Fn(&[u8])) {
        assert_is_selected();
        if let Some(directory) = std::env::var_os(EXAMPLES) {
            return self.write_examples(&PathBuf::from(directory));
        }
        if let Some(file) = std::env::var_os(INPUT) {
            return target(&std::fs::read(&file).unwrap_or_else(|e| panic!("{INPUT}: {e}")));
        }
        if let Some(seed) = number(SEED) {
            return self.try_seeds([seed], INPUT_LIMIT, |_| true, target);
        }
        let budget = number(SECONDS).map_or(BUDGET, Duration::from_secs);
        // Lower seeds are those of the examples and of earlier failures.
        let base = number(BASE).unwrap_or_else(|| (1 << 40) + rand::random_range(0..1 << 40));
        eprintln!("begins with {BASE}={base}");
        let seeds = (0..self.examples.len() as u64).chain(base..);
        let start = Instant::now();
        let has_time = |tried| tried < LEAST || start.elapsed() < budget;
        self.try_seeds(seeds, INPUT_LIMIT, has_time, target);
    }

    fn write_examples(&self, directory: &Path) {
        let test = machine::test_name().replace("::", ".");
        for (number, example) in self.examples.iter().enumerate() {
            let path = directory.join(format!("{test}.{number}"));
            std::fs::write(&path, example).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }

    fn try_seeds(
        &self,
        seeds: impl IntoIterator<Item = u64>,
        limit: Duration,
        has_time: impl Fn(u64) -> bool,
        target: impl Fn(&[u8]),
    ) {
        let start = Instant::now();
        let current = AtomicU64::new(0);
        std::thread::scope(|scope| {
            // Dropped at the end or by a panic, which stops the watchdog.
            let (_running, ended) = mpsc::channel::<()>();
            scope.spawn(|| self.watch(&current, ended, limit * machine::patience()));
            let mut tried = 0;
            for seed in seeds {
                if !has_time(tried) {
                    break;
                }
                let input = self.input(seed);
                current.store(seed, Ordering::Relaxed);
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&input))) {
                    report("failed", seed, &input);
                    std::panic::resume_unwind(panic);
                }
                tried += 1;
            }
            eprintln!("{tried} inputs in {:?}", start.elapsed());
        });
    }

    /// Ends the process if one input takes longer than `limit`.
    fn watch(&self, current: &AtomicU64, ended: mpsc::Receiver<()>, limit: Duration) {
        let mut since = (current.load(Ordering::Relaxed), Instant::now());
        while ended.recv_timeout(limit / 20) == Err(RecvTimeoutError::Timeout) {
            let seed = current.load(Ordering::Relaxed);
            if seed != since.0 {
                since = (seed, Instant::now());
            } else if since.1.elapsed() > limit {
                report(
                    &format!("took longer than {limit:?}"),
                    seed,
                    &self.input(seed),
                );
                std::process::exit(101);
            }
        }
    }

    /// Returns the input of a seed. The first seeds return the unchanged examples.
    fn input(&self, seed: u64) -> Vec<u8> {
        assert!(!self.examples.is_empty(), "nothing to start from");
        if let Some(example) = usize::try_from(seed)
            .ok()
            .and_then(|n| self.examples.get(n))
        {
            return example.clone();
        }
        let mut chance = Chance(seed);
        let mut input = chance.pick(&self.examples).clone();
        for _ in 0..=chance.below(8) {
            self.change(&mut input, &mut chance);
        }
        if let Some(repair) = self.repair
            && chance.below(8) > 0
        {
            repair(&mut input, &mut chance);
        }
        input
    }

    fn change(&self, input: &mut Vec<u8>, chance: &mut Chance) {
        const EDGES: [u8; 10] = [0, 1, 0x7f, 0x80, 0xff, b'0', b'7', b'/', b'.', b'-'];
        let (from, to) = chance.range(input.len());
        match chance.below(10) {
            0 if from < input.len() => input[from] ^= 1 << chance.below(8),
            1 if from < input.len() => input[from] = *chance.pick(&EDGES),
            2 if from < input.len() => input[from] = chance.below(256) as u8,
            3 => drop(input.drain(from..to)),
            4 => {
                let again = input[from..to].to_vec();
                let at = chance.below(input.len() + 1);
                drop(input.splice(at..at, again));
            }
            5 => input.truncate(from),
            6 => {
                // Splices in the end of another example.
                let other = chance.pick(&self.examples).clone();
                let (start, end) = chance.range(other.len());
                drop(input.splice(from..to, other[start..end].iter().copied()));
            }
            7 => {
                let other = chance.below(input.len() + 1);
                let length = (to - from).min(input.len() - other);
                let piece = input[other..other + length].to_vec();
                input[from..from + length].copy_from_slice(&piece);
            }
            _ if !self.words.is_empty() => {
                let word = chance.pick(&self.words).clone();
                let end = if chance.below(2) == 0 { from } else { to };
                drop(input.splice(from..end, word));
            }
            _ => input.extend_from_slice(&[chance.below(256) as u8]),
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Fails if `.ci/fuzz` would not select the target.
fn assert_is_selected() {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    let test = machine::test_name();
    assert!(
        test.contains(MARK) || program.contains(MARK),
        "{test} is a target of fuzzing: its name, or that of its module or file, must contain {MARK:?}"
    );
}

/// Prints how to repeat a failure.
fn report(how: &str, seed: u64, input: &[u8]) {
    let file = std::env::temp_dir().join(format!("orlop-fuzz-{seed}"));
    let copy = match std::fs::write(&file, input) {
        Ok(()) => format!(
            " or, if the examples change from run to run, {INPUT}={}",
            file.display()
        ),
        Err(_) => String::new(),
    };
    eprintln!(
        "{} {how}; repeat it with {SEED}={seed}{copy}; the input, {} bytes: {}",
        machine::test_name(),
        input.len(),
        input.escape_ascii()
    );
}

/// A pseudorandom generator with the same output on every machine and in every release (splitmix64).
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// Creates the generator of a seed.
    pub fn of_seed(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.below(from.len());
        &from[at]
    }

    /// Returns a range within this length, mostly a short one.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length + 1);
        let most = if self.below(4) == 0 { length } else { 16 };
        let to = from + self.below((length - from).min(most) + 1);
        (from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_seed_always_gives_the_same_and_seeds_differ() {
        let fuzz = Fuzz::new().example("one example").words(["word"]);
        assert_eq!(fuzz.input(0), b"one example");
        let inputs: Vec<_> = (1..200).map(|seed| fuzz.input(seed)).collect();
        assert_eq!(
            inputs,
            (1..200).map(|seed| fuzz.input(seed)).collect::<Vec<_>>()
        );
        assert!(inputs.iter().collect::<HashSet<_>>().len() > 150);
    }

    #[test]
    #[should_panic(expected = "found it")]
    fn a_flaw_is_found_by_a_target_that_is_fuzzed() {
        Fuzz::new()
            .example("harmless")
            .run(|input| assert!(!input.contains(&0xff), "found it"));
    }

    #[test]
    #[should_panic(expected = "must contain")]
    fn a_target_that_the_long_run_would_not_find_is_refused() {
        Fuzz::new().example("harmless").run(|_| {});
    }

    #[test]
    fn inputs_are_others_in_each_run() {
        let tried = |base: u64| {
            let fuzz = Fuzz::new().example("one example");
            let inputs = (base..base + 100).map(|seed| fuzz.input(seed));
            inputs.collect::<HashSet<_>>()
        };
        assert!(tried(1 << 40).intersection(&tried(1 << 41)).count() < 20);
    }

    #[test]
    fn a_target_that_hangs_is_ended_and_its_input_named() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "mutation::tests::hanging",
                "--ignored",
                "--nocapture",
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(101), "{said}");
        crate::assert_contains!(
            said,
            "took longer than 200ms; repeat it with ORLOP_FUZZ_SEED=1"
        );
        assert!(said.contains("11 bytes: one example"), "{said}");
    }

    #[test]
    #[ignore = "the process that another test starts"]
    fn hanging() {
        let fuzz = Fuzz::new().example("x").example("one example");
        let limit = Duration::from_millis(200);
        let sleep = |input: &[u8]| {
            if input.starts_with(b"one") {
                std::thread::sleep(Duration::from_mins(1));
            }
        };
        fuzz.try_seeds([0, 1], limit, |_| true, sleep);
    }
}
