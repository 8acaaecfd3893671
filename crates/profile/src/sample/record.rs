//! What the kernel writes of a thread.

use crate::bytes::Bytes;
use crate::unwind::{ASKED, Registers};

/// `PERF_RECORD_LOST`, `_THROTTLE`, `_SAMPLE`.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// From here on numbers among callers say whose the next ones are (`PERF_CONTEXT_MAX`).
const MARKS: u64 = 4095_u64.wrapping_neg();
/// The number of registers (`PERF_SAMPLE_REGS_ABI_64`).
const ABI_64: u64 = 2;

/// What one tick saw.
#[derive(Debug)]
pub(crate) struct Sample<'a> {
    pub(crate) thread: u32,
    /// Where in the kernel it was and how it came there, the innermost first.
    pub(crate) kernel: Vec<u64>,
    /// Where the program was. None of a thread without one, of the kernel's.
    pub(crate) registers: Option<Registers>,
    pub(crate) stack: &'a [u8],
}

/// Hands each sample on; how many were lost.
pub(super) fn read<'a>(records: &'a [u8], mut on: impl FnMut(Sample<'a>)) -> u64 {
    let mut bytes = Bytes(records);
    let mut lost = 0_u64;
    loop {
        let head = (bytes.u32(), bytes.u16(), bytes.u16());
        let (Some(kind), Some(_), Some(size)) = head else {
            return lost;
        };
        let Some(body) = usize::from(size)
            .checked_sub(8)
            .and_then(|size| bytes.take(size))
        else {
            return lost;
        };
        match kind {
            SAMPLE => {
                if let Some(sample) = sample(body) {
                    on(sample);
                }
            }
            LOST => {
                let mut body = Bytes(body);
                let more = body.u64().and_then(|_| body.u64()).unwrap_or(0);
                lost = lost.saturating_add(more);
            }
            _ => {}
        }
    }
}

fn sample(body: &[u8]) -> Option<Sample<'_>> {
    let mut bytes = Bytes(body);
    let (_process, thread) = (bytes.u32()?, bytes.u32()?);
    let callers = bytes.u64()?;
    let mut kernel = Vec::new();
    for _ in 0..callers {
        let place = bytes.u64()?;
        if place < MARKS {
            kernel.push(place);
        }
    }
    let mut registers = None;
    let abi = bytes.u64()?;
    if abi != 0 {
        let mut all = Registers::default();
        for (_, number) in ASKED {
            let value = bytes.u64()?;
            match number {
                Some(number) => all.all[*number] = Some(value),
                None => all.pc = value,
            }
        }
        registers = (abi == ABI_64).then_some(all);
    }
    let size = usize::try_from(bytes.u64()?).ok()?;
    let mut stack = bytes.take(size)?;
    if size > 0 {
        let filled = usize::try_from(bytes.u64()?).ok()?;
        stack = stack.get(..filled)?;
    }
    Some(Sample {
        thread,
        kernel,
        registers,
        stack,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzzed_records_do_not_break_the_reader() {
        let mut sample = Vec::new();
        sample.extend([1, 2].map(u32::to_ne_bytes).concat());
        // Two callers, the kernel's mark among them; registers; a stack of 16 bytes, all of it filled.
        let numbers = [2, (-128_i64) as u64, 0xffff_8000_0000_0000, 2];
        sample.extend(numbers.map(u64::to_ne_bytes).concat());
        sample.extend(vec![1; ASKED.len() * 8]);
        sample.extend(16_u64.to_ne_bytes());
        sample.extend([5; 16]);
        sample.extend(16_u64.to_ne_bytes());
        let record = |kind: u32, body: &[u8]| {
            let mut record = kind.to_ne_bytes().to_vec();
            record.extend(0_u16.to_ne_bytes());
            record.extend((body.len() as u16 + 8).to_ne_bytes());
            record.extend(body);
            record
        };
        let records = [record(9, &sample), record(2, &[1; 16])].concat();
        let mut seen = 0;
        assert!(read(&records, |_| seen += 1) > 0);
        assert_eq!(seen, 1);
        orlop_testkit::Fuzz::new()
            .example(records)
            .words([&[0xff; 8][..], &[0; 8], &9_u32.to_ne_bytes()])
            .run(|input| {
                read(input, |sample| {
                    assert!(sample.stack.len() <= input.len());
                    assert!(sample.kernel.len() <= input.len() / 8);
                });
            });
    }
}
