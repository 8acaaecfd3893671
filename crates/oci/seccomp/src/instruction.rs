//! Instructions of classic BPF, as far as they are used (`linux/filter.h`).

/// The kernel's limit for one program (`BPF_MAXINSNS`).
pub const MAX_INSTRUCTIONS: usize = 4096;

/// One instruction: `struct sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// The operation code.
    pub code: u16,
    /// Number of instructions to skip if a comparison holds.
    pub jump_true: u8,
    /// Number of instructions to skip if it does not.
    pub jump_false: u8,
    /// The value to compare, load or return.
    pub operand: u32,
}

/// `BPF_LD | BPF_W | BPF_ABS`: loads a word of `seccomp_data` into the accumulator.
pub(crate) const LOAD: u16 = 0x20;
/// `BPF_ALU | BPF_AND | BPF_K`.
pub(crate) const AND: u16 = 0x54;
/// `BPF_JMP | BPF_JA`.
pub(crate) const JUMP: u16 = 0x05;
/// `BPF_JMP | BPF_JEQ | BPF_K`.
pub(crate) const EQUAL: u16 = 0x15;
/// `BPF_JMP | BPF_JGT | BPF_K`.
pub(crate) const GREATER: u16 = 0x25;
/// `BPF_JMP | BPF_JGE | BPF_K`.
pub(crate) const GREATER_OR_EQUAL: u16 = 0x35;
/// `BPF_RET | BPF_K`.
pub(crate) const RETURN: u16 = 0x06;

/// The fields of `struct seccomp_data` (`linux/seccomp.h`).
pub(crate) const NUMBER: u32 = 0;
pub(crate) const ARCHITECTURE: u32 = 4;
pub(crate) const ARGUMENTS: u32 = 16;
pub(crate) const DATA_SIZE: u32 = 64;

impl Instruction {
    pub(crate) fn new(code: u16, operand: u32) -> Self {
        Self {
            code,
            jump_true: 0,
            jump_false: 0,
            operand,
        }
    }

    /// Returns whether the instruction is valid at `place` in a program of `length`: it is of a kind above, and jumps
    /// only within the program.
    pub(crate) fn fits(self, place: usize, length: usize) -> bool {
        let left = length.saturating_sub(place + 1);
        let jumps = usize::from(self.jump_true.max(self.jump_false));
        match self.code {
            RETURN => jumps == 0,
            LOAD => {
                jumps == 0 && left > 0 && self.operand < DATA_SIZE && self.operand.is_multiple_of(4)
            }
            AND => jumps == 0 && left > 0,
            JUMP => jumps == 0 && (self.operand as usize) < left,
            EQUAL | GREATER | GREATER_OR_EQUAL => jumps < left,
            _ => false,
        }
    }
}
