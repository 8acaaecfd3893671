//! From caller to caller.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::expression::evaluate;
use super::modules::{Modules, Way};
use super::registers::{Registers, STACK};
use super::rows::{Base, Rule};
use crate::bytes::Bytes;

/// Callers of one sample.
const DEEPEST: usize = 512;

/// What is mapped is looked at no more often.
const PAUSE: Duration = Duration::from_secs(1);

/// The bits of an address; what is above them may be its signature.
const ADDRESS: u64 = if cfg!(target_arch = "aarch64") {
    (1 << 52) - 1
} else {
    u64::MAX
};

/// Who walks the stacks of one process.
#[derive(Debug)]
pub(crate) struct Walker {
    pub(crate) modules: Modules,
    looked: Instant,
}

/// The end of a stack, from the stack pointer on.
#[derive(Debug, Clone, Copy)]
struct Piece<'a> {
    at: u64,
    bytes: &'a [u8],
}

impl Piece<'_> {
    fn read(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.at)?).ok()?;
        Bytes(self.bytes.get(offset..)?).u64()
    }
}

impl Walker {
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        Ok(Self {
            modules: Modules::of(pid)?,
            looked: Instant::now(),
        })
    }

    /// Where a thread is and who called it there, the innermost first; and whether that is all.
    /// Ends at a time, whatever is known by then.
    pub(crate) fn walk(
        &mut self,
        registers: &Registers,
        stack: &[u8],
        until: Instant,
    ) -> (Vec<u64>, bool) {
        let mut places = vec![registers.pc];
        let Some(at) = registers.stack() else {
            self.modules.read(registers.pc);
            return (places, false);
        };
        let piece = Piece { at, bytes: stack };
        let mut registers = registers.clone();
        // The first is at its instruction; the others are behind the call that they made.
        let mut back = 0;
        loop {
            let place = registers.pc.wrapping_sub(back);
            if places.len() >= DEEPEST || Instant::now() >= until {
                self.modules.read(place);
                return (places, false);
            }
            let Some(way) = self.way(place) else {
                return (places, false);
            };
            match step(&registers, &way, piece) {
                Some(Stepped::To(caller)) => registers = *caller,
                Some(Stepped::End) => return (places, true),
                None => return (places, false),
            }
            back = u64::from(!way.is_signal);
            places.push(registers.pc.wrapping_sub(back));
        }
    }

    fn way(&mut self, place: u64) -> Option<Arc<Way>> {
        if !self.modules.has(place) && self.looked.elapsed() > PAUSE {
            self.looked = Instant::now();
            // One that has ended has no more samples either.
            let _ = self.modules.refresh();
        }
        self.modules.way(place)
    }
}

enum Stepped {
    To(Box<Registers>),
    /// Nobody called.
    End,
}

fn step(registers: &Registers, way: &Way, stack: Piece<'_>) -> Option<Stepped> {
    let read = |address| stack.read(address);
    let row = &way.row;
    // A linkage table says where it is by the number of the return address.
    let mut here = registers.clone();
    if let Some(place) = here.all.get_mut(usize::try_from(way.returns).ok()?)
        && cfg!(target_arch = "x86_64")
    {
        *place = Some(registers.pc);
    }
    let base = match &row.frame {
        Base::Register(number, offset) => here.get(*number)?.wrapping_add_signed(*offset),
        Base::Expression(expression) => evaluate(expression, None, &here, read)?,
    };
    let mut caller = Registers::default();
    for (number, rule) in row.rules.iter().enumerate() {
        caller.all[number] = match rule {
            Rule::Same => registers.all[number],
            Rule::Lost => None,
            Rule::At(offset) => read(base.wrapping_add_signed(*offset)),
            Rule::Is(offset) => Some(base.wrapping_add_signed(*offset)),
            Rule::Register(from) => registers.get(*from),
            Rule::AtExpression(expression) => {
                evaluate(expression, Some(base), &here, read).and_then(read)
            }
            Rule::IsExpression(expression) => evaluate(expression, Some(base), &here, read),
        };
    }
    let returns = usize::try_from(way.returns).ok()?;
    if matches!(row.rules.get(returns)?, Rule::Lost) {
        return Some(Stepped::End);
    }
    if matches!(row.rules[STACK], Rule::Same) {
        caller.all[STACK] = Some(base);
    }
    let pc = caller.all[returns]? & ADDRESS;
    if pc == 0 {
        return Some(Stepped::End);
    }
    caller.pc = pc;
    // Stacks grow down: who called stands above. Only a leaf may have put nothing there.
    let (below, above) = (registers.stack()?, caller.stack()?);
    let moved = above > below || above == below && pc != registers.pc;
    moved.then(|| Stepped::To(Box::new(caller)))
}

#[cfg(test)]
mod tests {
    use super::super::rows::Row;
    use super::*;

    #[test]
    fn a_walk_ends_at_its_depth_and_at_its_time() {
        let mut walker = Walker::of(std::process::id()).unwrap();
        let mut row = Row {
            frame: Base::Register(STACK as u64, 16),
            rules: Default::default(),
        };
        row.rules[16] = Rule::At(-8);
        let way = Way {
            row,
            returns: 16,
            is_signal: true,
        };
        walker.modules.ways.insert(7, Some(Arc::new(way)));
        let mut registers = Registers {
            pc: 7,
            ..Registers::default()
        };
        registers.all[STACK] = Some(0);
        let stack = 7_u64.to_ne_bytes().repeat(2048);
        let now = Instant::now();
        let (places, is_whole) = walker.walk(&registers, &stack, now + Duration::from_mins(1));
        assert_eq!((places.len(), is_whole), (DEEPEST, false));
        let (places, is_whole) = walker.walk(&registers, &stack, now);
        assert_eq!((places, is_whole), (vec![7], false));
    }
}
