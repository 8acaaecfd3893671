//! Bounded fuzzing with the stable compiler: examples are changed again and again, and each
//! change is tried. The same seeds come in every run, so that a failure can be had again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long a target is tried unless [`SECONDS`] says otherwise.
const BUDGET: Duration = Duration::from_secs(1);
/// Tries that a slow machine makes in any case.
const LEAST: u64 = 50;
/// For how many seconds each target is tried.
const SECONDS: &str = "ORLOP_FUZZ_SECONDS";
/// The one seed to try.
const SEED: &str = "ORLOP_FUZZ_SEED";

type Repair = fn(&mut Vec<u8>, &mut Chance);

/// A target's examples, and what is known about its language.
#[derive(Debug, Default)]
pub struct Fuzz {
    examples: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    repair: Option<Repair>,
}

impl Fuzz {
    /// Nothing yet; at least one example must come.
    pub fn new() -> Self {
        Self::default()
    }

    /// An input that is right, or interesting in its wrongness.
    pub fn example(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.examples.push(bytes.as_ref().to_vec());
        self
    }

    /// Words that the target knows: put in here and there, they lead further than noise.
    pub fn words<W: AsRef<[u8]>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        let words = words.into_iter().map(|word| word.as_ref().to_vec());
        self.words.extend(words);
        self
    }

    /// Mends what would end every try at its first check: lengths, checksums. Is asked for
    /// most inputs, not for all.
    pub fn repair(mut self, repair: Repair) -> Self {
        self.repair = Some(repair);
        self
    }

    /// Tries changed examples until the time is over. Panics with the seed when `target` does.
    pub fn run(&self, target: impl Fn(&[u8])) {
        let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
        if let Some(seed) = number(SEED) {
            return target(&self.input(seed));
        }
        let budget = number(SECONDS).map_or(BUDGET, Duration::from_secs);
        let start = Instant::now();
        let mut seed = 0;
        while seed < LEAST || start.elapsed() < budget {
            let input = self.input(seed);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&input))) {
                eprintln!(
                    "failed with {SEED}={seed}, on {} bytes: {}",
                    input.len(),
                    input.escape_ascii()
                );
                std::panic::resume_unwind(panic);
            }
            seed += 1;
        }
        eprintln!("{seed} inputs in {:?}", start.elapsed());
    }

    /// The input that belongs to a seed. The first seeds give the examples as they are.
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
                // The end of another example, from anywhere.
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

/// A source of chance that is the same on every machine and in every release (splitmix64).
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// The one that belongs to a seed.
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

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.below(from.len());
        &from[at]
    }

    /// A part of something of this length, mostly a short one.
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
    fn a_flaw_is_found() {
        Fuzz::new()
            .example("harmless")
            .run(|input| assert!(!input.contains(&0xff), "found it"));
    }
}
