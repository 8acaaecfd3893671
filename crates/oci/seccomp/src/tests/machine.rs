//! The kernel's machine for filters, as much as is used of it.

use crate::Instruction;
use crate::instruction::{AND, EQUAL, GREATER, GREATER_OR_EQUAL, JUMP, LOAD, RETURN};

/// A system call as the kernel tells a filter of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) audit: u32,
    pub(super) number: u32,
    pub(super) args: [u64; 6],
}

impl Call {
    /// `struct seccomp_data` in the byte order of the machine; words are read in that order, too.
    fn word(&self, offset: u32, little: bool) -> u32 {
        match offset {
            0 => self.number,
            4 => self.audit,
            8 | 12 => panic!("a program looks at the instruction pointer"),
            _ => {
                let half = (offset - 16) / 4;
                let arg = self.args[(half / 2) as usize];
                if (half % 2 == 1) == little {
                    (arg >> 32) as u32
                } else {
                    arg as u32
                }
            }
        }
    }
}

/// What a program answers, and in how many steps.
pub(super) fn run(program: &[Instruction], call: &Call, little: bool) -> (u32, usize) {
    let (mut at, mut steps, mut accumulator) = (0, 0, 0);
    loop {
        let instruction = program[at];
        assert!(instruction.fits(at, program.len()), "{at}: {instruction:?}");
        (at, steps) = (at + 1, steps + 1);
        let operand = instruction.operand;
        let holds = match instruction.code {
            LOAD => {
                accumulator = call.word(operand, little);
                continue;
            }
            AND => {
                accumulator &= operand;
                continue;
            }
            JUMP => {
                at += operand as usize;
                continue;
            }
            RETURN => return (operand, steps),
            EQUAL => accumulator == operand,
            GREATER => accumulator > operand,
            GREATER_OR_EQUAL => accumulator >= operand,
            code => panic!("no such instruction: {code:#x}"),
        };
        at += usize::from(if holds {
            instruction.jump_true
        } else {
            instruction.jump_false
        });
    }
}
