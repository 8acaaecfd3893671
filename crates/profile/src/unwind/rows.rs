//! The little programs of `.eh_frame` (DWARF 5, 6.4.2): where the caller's registers are, at one instruction.

use std::sync::Arc;

use super::expression;
use super::frame::Frame;
use super::registers::COUNT;
use crate::bytes::Bytes;

/// Rows that a program may put aside.
const DEEPEST: usize = 16;
/// Steps of one program.
const MOST_STEPS: usize = 4096;

/// Where the caller's registers are.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) frame: Base,
    pub(super) rules: [Rule; COUNT],
}

/// From where other places are counted: what the stack pointer of the caller will be.
#[derive(Debug, Clone)]
pub(super) enum Base {
    Register(u64, i64),
    Expression(Arc<[u8]>),
}

/// Where one register of the caller is.
#[derive(Debug, Clone, Default)]
pub(super) enum Rule {
    /// Where it was.
    #[default]
    Same,
    /// Nowhere. Of where to go on: nobody called.
    Lost,
    /// In memory, so far from the base.
    At(i64),
    /// So far from the base itself.
    Is(i64),
    Register(u64),
    /// In memory, where an expression says.
    AtExpression(Arc<[u8]>),
    IsExpression(Arc<[u8]>),
}

impl Row {
    /// The row of an instruction. None of a program that makes no sense.
    pub(super) fn of(frame: &Frame, place: u64) -> Option<Self> {
        let mut machine = Machine {
            frame,
            row: Self {
                frame: Base::Register(0, 0),
                rules: Default::default(),
            },
            first: None,
            aside: Vec::new(),
            location: frame.start,
            place,
        };
        machine.run(&frame.common.program)?;
        machine.first = Some(machine.row.clone());
        machine.location = frame.start;
        machine.run(&frame.program)?;
        Some(machine.row)
    }
}

struct Machine<'a> {
    frame: &'a Frame,
    row: Row,
    /// What the common part made.
    first: Option<Row>,
    aside: Vec<Row>,
    location: u64,
    place: u64,
}

impl Machine<'_> {
    fn run(&mut self, program: &[u8]) -> Option<()> {
        let mut bytes = Bytes(program);
        let mut left = MOST_STEPS;
        while let Some(code) = bytes.u8() {
            left = left.checked_sub(1)?;
            let low = u64::from(code & 0x3f);
            let steps = match (code >> 6, code) {
                (1, _) => Some(low),
                (2, _) => {
                    let offset = self.offset(bytes.uleb()? as i64)?;
                    self.set(low, Rule::At(offset))?;
                    None
                }
                (3, _) => {
                    self.restore(low)?;
                    None
                }
                (_, 0x02) => Some(bytes.u8()?.into()),
                (_, 0x03) => Some(bytes.u16()?.into()),
                (_, 0x04) => Some(bytes.u32()?.into()),
                (_, code) => {
                    self.other(code, &mut bytes)?;
                    None
                }
            };
            if let Some(steps) = steps {
                let ahead = steps.wrapping_mul(self.frame.common.code_step);
                self.location = self.location.wrapping_add(ahead);
                if self.location > self.place {
                    break;
                }
            }
        }
        Some(())
    }

    fn other(&mut self, code: u8, bytes: &mut Bytes<'_>) -> Option<()> {
        match code {
            // Nothing; what an argument takes; signed return addresses, whose signature is cut off anyway.
            0x00 | 0x2d => {}
            0x2e => drop(bytes.uleb()?),
            0x05 => {
                let (register, offset) = (bytes.uleb()?, bytes.uleb()? as i64);
                self.set(register, Rule::At(self.offset(offset)?))?;
            }
            0x06 => self.restore(bytes.uleb()?)?,
            0x07 => self.set(bytes.uleb()?, Rule::Lost)?,
            0x08 => self.set(bytes.uleb()?, Rule::Same)?,
            0x09 => {
                let (register, from) = (bytes.uleb()?, bytes.uleb()?);
                self.set(register, Rule::Register(from))?;
            }
            0x0a => {
                (self.aside.len() < DEEPEST).then_some(())?;
                self.aside.push(self.row.clone());
            }
            0x0b => self.row = self.aside.pop()?,
            0x0c => self.row.frame = Base::Register(bytes.uleb()?, bytes.uleb()? as i64),
            0x0d => {
                let register = bytes.uleb()?;
                self.rebase(|_, offset| (register, offset))?;
            }
            0x0e => {
                let offset = bytes.uleb()? as i64;
                self.rebase(|register, _| (register, offset))?;
            }
            0x0f => self.row.frame = Base::Expression(block(bytes)?),
            0x10 => {
                let register = bytes.uleb()?;
                self.set(register, Rule::AtExpression(block(bytes)?))?;
            }
            0x11 => {
                let (register, offset) = (bytes.uleb()?, bytes.sleb()?);
                self.set(register, Rule::At(self.offset(offset)?))?;
            }
            0x12 => {
                let (register, offset) = (bytes.uleb()?, bytes.sleb()?);
                self.row.frame = Base::Register(register, self.offset(offset)?);
            }
            0x13 => {
                let offset = bytes.sleb()?;
                let offset = self.offset(offset)?;
                self.rebase(|register, _| (register, offset))?;
            }
            0x14 => {
                let (register, offset) = (bytes.uleb()?, bytes.uleb()? as i64);
                self.set(register, Rule::Is(self.offset(offset)?))?;
            }
            0x15 => {
                let (register, offset) = (bytes.uleb()?, bytes.sleb()?);
                self.set(register, Rule::Is(self.offset(offset)?))?;
            }
            0x16 => {
                let register = bytes.uleb()?;
                self.set(register, Rule::IsExpression(block(bytes)?))?;
            }
            _ => return None,
        }
        Some(())
    }

    fn offset(&self, steps: i64) -> Option<i64> {
        steps.checked_mul(self.frame.common.data_step)
    }

    fn rebase(&mut self, change: impl FnOnce(u64, i64) -> (u64, i64)) -> Option<()> {
        let Base::Register(register, offset) = self.row.frame else {
            return None;
        };
        let (register, offset) = change(register, offset);
        self.row.frame = Base::Register(register, offset);
        Some(())
    }

    /// Registers beyond are of no use to who unwinds.
    fn set(&mut self, register: u64, rule: Rule) -> Option<()> {
        let number = usize::try_from(register).ok()?;
        if let Some(place) = self.row.rules.get_mut(number) {
            *place = rule;
        }
        Some(())
    }

    fn restore(&mut self, register: u64) -> Option<()> {
        let number = usize::try_from(register).ok()?;
        let rule = self.first.as_ref()?.rules.get(number).cloned();
        self.set(register, rule.unwrap_or_default())
    }
}

fn block(bytes: &mut Bytes<'_>) -> Option<Arc<[u8]>> {
    let length = usize::try_from(bytes.uleb()?).ok()?;
    (length <= expression::LONGEST).then_some(())?;
    Some(bytes.take(length)?.into())
}

#[cfg(test)]
mod tests {
    use super::super::frame::Common;
    use super::*;

    fn frame(program: &[u8]) -> Frame {
        Frame {
            start: 0x100,
            end: 0x200,
            common: Common {
                code_step: 1,
                data_step: -8,
                returns: 16,
                // What begins at every function of x86-64: rsp + 8, and the return address below it.
                program: vec![0x0c, 7, 8, 0x90, 1],
                ..Common::default()
            },
            program: program.to_owned(),
        }
    }

    #[test]
    fn each_instruction_has_its_own_row() {
        // push rbp; mov rbp, rsp; …; pop rbp; ret
        let frame = frame(&[
            0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x0a, 0x50, 0x0c, 7, 8, 0xc6, 0x41, 0x0b,
        ]);
        let row = |place| Row::of(&frame, place).unwrap();
        let shown = |place| {
            let row = row(place);
            format!("{:?} {:?} {:?}", row.frame, row.rules[6], row.rules[16])
        };
        assert_eq!(shown(0x100), "Register(7, 8) Same At(-8)");
        assert_eq!(shown(0x101), "Register(7, 16) At(-16) At(-8)");
        assert_eq!(shown(0x104), "Register(6, 16) At(-16) At(-8)");
        assert_eq!(shown(0x114), "Register(7, 8) Same At(-8)");
        assert_eq!(shown(0x115), "Register(6, 16) At(-16) At(-8)");
    }

    #[test]
    fn no_program_breaks_who_reads_it() {
        for program in [
            &[0x0b][..],
            &[0x0f, 0xff],
            &[0x3f],
            &[0x16, 0x80],
            &[0x0a; 17],
            &[
                0x05, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
            ],
        ] {
            assert!(Row::of(&frame(program), 0x100).is_none(), "{program:?}");
        }
        let of_length = |length: [u8; 2], count| {
            let program = [&[0x0f], &length[..], &vec![0x96; count]].concat();
            Row::of(&frame(&program), 0x100)
        };
        assert!(of_length([0x80, 8], 1024).is_some());
        assert!(of_length([0x81, 8], 1025).is_none(), "an expression");
        assert!(Row::of(&frame(&[0; MOST_STEPS]), 0x100).is_some());
        assert!(Row::of(&frame(&[0; MOST_STEPS + 1]), 0x100).is_none());
        let far = Row::of(&frame(&[0x05, 0xff, 0x7f, 1]), 0x100);
        assert!(far.is_some(), "a register that is not ours");
    }
}
