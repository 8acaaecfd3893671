//! Device rules as a BPF program, which cgroup v2 runs at each device access.

use super::rules::{Access, Kind, Rules, Which};

/// `struct bpf_insn` of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u8,
    /// The destination register in the lower half, the source register in the upper.
    registers: u8,
    offset: i16,
    value: i32,
}

/// Registers: the result, the request (`struct bpf_cgroup_dev_ctx`), and values read from it.
const ANSWER: u8 = 0;
const CONTEXT: u8 = 1;
const KIND: u8 = 2;
const ACCESS: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;

/// Compiles rules to a program: the first exception that applies decides. An allowing exception applies if it covers
/// the whole request. A denying one applies if it covers any part of it, as with cgroup v1.
pub(super) fn of(rules: &Rules) -> Vec<Instruction> {
    let mut program = vec![
        // The lower half of the first word is the device type, the upper half the requested access.
        load(KIND, 0),
        and(KIND, 0xffff),
        load(ACCESS, 0),
        shift_right(ACCESS, 16),
        load(MAJOR, 4),
        load(MINOR, 8),
    ];
    for (which, access) in &rules.exceptions {
        program.extend(exception(*which, *access, i32::from(!rules.all_but)));
    }
    program.extend(answer(i32::from(rules.all_but)));
    program
}

fn exception(which: Which, access: Access, allow: i32) -> Vec<Instruction> {
    let mut questions = vec![Question::Value(
        KIND,
        match which.kind {
            // `BPF_DEVCG_DEV_BLOCK` and `BPF_DEVCG_DEV_CHAR`.
            Kind::Block => 1,
            Kind::Char => 2,
        },
    )];
    if access != Access::ALL {
        let access = i32::from(access.0);
        questions.push(if allow == 0 {
            Question::Touches(access)
        } else {
            Question::Covers(access)
        });
    }
    for (register, number) in [(MAJOR, which.major), (MINOR, which.minor)] {
        if let Some(number) = number {
            // No device has such a number: the comparison never matches, whatever the sign.
            questions.push(Question::Value(register, number as i32));
        }
    }
    let mut length = answer(allow).len() as i16;
    let mut backwards: Vec<Instruction> = answer(allow).into_iter().rev().collect();
    for question in questions.into_iter().rev() {
        let asked = match question {
            Question::Value(register, value) => vec![jump_unless_value(register, value, length)],
            Question::Covers(access) => vec![
                // The context is not needed any more.
                copy(CONTEXT, ACCESS),
                and(CONTEXT, access),
                jump_unless_same(CONTEXT, ACCESS, length),
            ],
            Question::Touches(access) => vec![
                copy(CONTEXT, ACCESS),
                and(CONTEXT, access),
                jump_if_value(CONTEXT, 0, length),
            ],
        };
        length += asked.len() as i16;
        backwards.extend(asked.into_iter().rev());
    }
    backwards.reverse();
    backwards
}

enum Question {
    Value(u8, i32),
    Covers(i32),
    Touches(i32),
}

// Opcodes are sums of classes, sizes and operations of `linux/bpf.h` and `linux/bpf_common.h`.

fn load(to: u8, offset: i16) -> Instruction {
    const LDX_MEM_W: u8 = 0x61;
    Instruction {
        code: LDX_MEM_W,
        registers: to | CONTEXT << 4,
        offset,
        value: 0,
    }
}

fn and(register: u8, value: i32) -> Instruction {
    const ALU_AND_K: u8 = 0x54;
    Instruction {
        code: ALU_AND_K,
        registers: register,
        offset: 0,
        value,
    }
}

fn shift_right(register: u8, value: i32) -> Instruction {
    const ALU_RSH_K: u8 = 0x74;
    Instruction {
        code: ALU_RSH_K,
        registers: register,
        offset: 0,
        value,
    }
}

fn copy(to: u8, from: u8) -> Instruction {
    const ALU_MOV_X: u8 = 0xbc;
    Instruction {
        code: ALU_MOV_X,
        registers: to | from << 4,
        offset: 0,
        value: 0,
    }
}

fn jump_unless_value(register: u8, value: i32, offset: i16) -> Instruction {
    const JMP_JNE_K: u8 = 0x55;
    Instruction {
        code: JMP_JNE_K,
        registers: register,
        offset,
        value,
    }
}

fn jump_if_value(register: u8, value: i32, offset: i16) -> Instruction {
    const JMP_JEQ_K: u8 = 0x15;
    Instruction {
        code: JMP_JEQ_K,
        registers: register,
        offset,
        value,
    }
}

fn jump_unless_same(one: u8, other: u8, offset: i16) -> Instruction {
    const JMP_JNE_X: u8 = 0x5d;
    Instruction {
        code: JMP_JNE_X,
        registers: one | other << 4,
        offset,
        value: 0,
    }
}

fn answer(value: i32) -> [Instruction; 2] {
    const ALU_MOV_K: u8 = 0xb4;
    const JMP_EXIT: u8 = 0x95;
    [
        Instruction {
            code: ALU_MOV_K,
            registers: ANSWER,
            offset: 0,
            value,
        },
        Instruction {
            code: JMP_EXIT,
            registers: 0,
            offset: 0,
            value: 0,
        },
    ]
}

#[cfg(test)]
mod tests {
    use orlop_oci_types::{DeviceKind, DeviceRule};

    use super::*;

    /// Returns the kernel's result for a program.
    fn run(program: &[Instruction], kind: u32, access: u32, major: u32, minor: u32) -> u64 {
        let context = [kind | access << 16, major, minor];
        let mut registers = [0u64; 11];
        let mut at = 0;
        loop {
            let it = program[at];
            at += 1;
            let (to, from) = (
                usize::from(it.registers & 15),
                usize::from(it.registers >> 4),
            );
            let value = it.value as u32;
            let jump = |at: usize, is: bool| if is { at + it.offset as usize } else { at };
            match it.code {
                0x61 => registers[to] = context[it.offset as usize / 4].into(),
                0x54 => registers[to] = u64::from(registers[to] as u32 & value),
                0x74 => registers[to] = u64::from(registers[to] as u32 >> value),
                0xbc => registers[to] = u64::from(registers[from] as u32),
                0xb4 => registers[to] = value.into(),
                0x15 => at = jump(at, registers[to] == i64::from(it.value) as u64),
                0x55 => at = jump(at, registers[to] != i64::from(it.value) as u64),
                0x5d => at = jump(at, registers[to] != registers[from]),
                0x95 => return registers[0],
                code => panic!("{code:#x}"),
            }
        }
    }

    fn rule(allow: bool, major: i64, minor: i64, access: &str) -> DeviceRule {
        DeviceRule {
            allow,
            kind: Some(DeviceKind::Block),
            major: Some(major),
            minor: Some(minor),
            access: access.to_owned(),
        }
    }

    const BLOCK: u32 = 1;
    const CHAR: u32 = 2;
    const RW: u32 = 6;

    #[test]
    fn the_program_answers_as_the_rules_say() {
        let program =
            of(&Rules::of(&[rule(true, 8, -1, "rw"), rule(true, 9, 1, "r")], &[]).unwrap());
        for (answer, kind, access, major, minor) in [
            (1, CHAR, RW, 1, 3),
            (0, CHAR, RW, 1, 1),
            (0, BLOCK, RW, 1, 3),
            (1, CHAR, 1, 1, 1),
            (0, CHAR, 3, 1, 1),
            (1, CHAR, RW, 136, 77),
            (1, BLOCK, RW, 8, 5),
            (0, BLOCK, 7, 8, 5),
            (1, BLOCK, 2, 9, 1),
            (0, BLOCK, RW, 9, 1),
            (0, BLOCK, 2, 9, 2),
        ] {
            let told = run(&program, kind, access, major, minor);
            assert_eq!(told, answer, "{kind} {access} {major}:{minor}");
        }
    }

    #[test]
    fn of_all_devices_some_can_be_forbidden() {
        let all = DeviceRule {
            allow: true,
            access: "rwm".into(),
            ..DeviceRule::default()
        };
        let program = of(&Rules::of(&[all, rule(false, 8, 0, "w")], &[]).unwrap());
        assert_eq!(run(&program, BLOCK, 2, 8, 0), 1);
        assert_eq!(run(&program, BLOCK, 4, 8, 0), 0);
        assert_eq!(run(&program, BLOCK, RW, 8, 0), 0);
        assert_eq!(run(&program, BLOCK, 4, 8, 1), 1);
    }
}
