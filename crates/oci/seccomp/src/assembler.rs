//! Builds a program from its end to its beginning: jumps only go forwards, so that their targets exist already.

use crate::instruction::{Instruction, JUMP, RETURN};

/// Instructions in reverse order.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
}

/// A written instruction, identified by its position from the end of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// The maximum distance of a conditional jump.
const REACH: usize = u8::MAX as usize;

impl Assembler {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            code: Vec::with_capacity(capacity),
        }
    }

    /// Adds an instruction before all others; it continues with the one after it.
    pub(crate) fn push(&mut self, instruction: Instruction) -> Label {
        self.code.push(instruction);
        Label(self.code.len() - 1)
    }

    /// Returns a return of this value: a near one, or a new one.
    pub(crate) fn answer(&mut self, answer: u32) -> Label {
        let wanted = Instruction::new(RETURN, answer);
        // Half of the maximum distance, so that the next instructions can still use it.
        let near = self.code.iter().rev().take(REACH / 2);
        match near
            .enumerate()
            .find(|(_, instruction)| **instruction == wanted)
        {
            Some((back, _)) => Label(self.code.len() - 1 - back),
            None => self.push(wanted),
        }
    }

    /// Adds a comparison of the accumulator.
    pub(crate) fn compare(&mut self, code: u16, operand: u32, holds: Label, fails: Label) -> Label {
        let holds = self.reach(holds, 1);
        let fails = self.reach(fails, 0);
        let skip = |label: Label, place: usize| (place - label.0 - 1) as u8;
        let place = self.code.len();
        self.push(Instruction {
            code,
            jump_true: skip(holds, place),
            jump_false: skip(fails, place),
            operand,
        })
    }

    /// Returns the label, or a jump to it that a comparison can reach, with `between` instructions in between.
    fn reach(&mut self, label: Label, between: usize) -> Label {
        let skipped = self.code.len() - label.0 - 1;
        if skipped + between <= REACH {
            return label;
        }
        let there = self.code[label.0];
        self.push(match there.code {
            RETURN => there,
            _ => Instruction::new(JUMP, skipped as u32),
        })
    }

    /// Returns the program, if it begins with `start`.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        self.code.reverse();
        self.code
    }
}
