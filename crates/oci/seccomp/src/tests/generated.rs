//! Thousands of profiles made up from a seed, and calls near to what they speak of.

use orlop_oci_types::{
    Seccomp, SeccompAction as Action, SeccompArg, SeccompOperator as Operator, SeccompRule,
};

use super::machine::{self, Call};
use super::meaning;
use crate::program::translate;
use crate::{Arch, Error, calls};

/// The names that rules speak of: of all kinds, and one that nobody knows.
const NAMES: [&str; 26] = [
    "read",
    "write",
    "open",
    "openat",
    "clone",
    "clone3",
    "personality",
    "socket",
    "connect",
    "accept4",
    "sendmmsg",
    "socketcall",
    "semop",
    "msgget",
    "shmctl",
    "ipc",
    "execve",
    "ioctl",
    "statx",
    "rseq",
    "cacheflush",
    "setresuid32",
    "fstatat64",
    "mount_setattr",
    "mseal",
    "no_such_call",
];

const VALUES: [u64; 12] = [
    0,
    1,
    2,
    5,
    0x7e02_0000,
    0xffff_fffe,
    0xffff_ffff,
    0x1_0000_0000,
    0x1_0000_0005,
    0x5_0000_0001,
    u64::MAX - 1,
    u64::MAX,
];

const ACTIONS: [Action; 8] = [
    Action::Allow,
    Action::Errno,
    Action::KillThread,
    Action::KillProcess,
    Action::Trap,
    Action::Trace,
    Action::Log,
    Action::Notify,
];

const OPERATORS: [Operator; 7] = [
    Operator::NotEqual,
    Operator::Less,
    Operator::LessOrEqual,
    Operator::Equal,
    Operator::GreaterOrEqual,
    Operator::Greater,
    Operator::MaskedEqual,
];

#[test]
fn programs_answer_what_profiles_mean() {
    let mut random = Random(0x5eed_0001);
    let (mut compiled, mut conditional) = (0, 0);
    for _ in 0..900 {
        let natives: Vec<Arch> = Arch::all().filter(|arch| !arch.is_x32()).collect();
        let native = *random.one_of(&natives);
        let profile = random.profile(native);
        let program = match translate(&profile, native) {
            Err(Error::Contradiction(_) | Error::NotifyWrite) => continue,
            program => program.unwrap(),
        };
        compiled += 1;
        for _ in 0..40 {
            let call = random.call(&profile, native);
            let (answer, steps) = machine::run(&program, &call, native.is_little_endian());
            let meant = meaning::of(&profile, native, &call);
            assert_eq!(answer, meant, "{} {call:x?} {profile:#?}", native.name());
            conditional += usize::from(steps > 15);
        }
    }
    assert!(
        compiled > 700 && conditional > 100,
        "{compiled} {conditional}"
    );
}

/// The same where comparisons cannot jump far enough.
#[test]
fn long_programs_answer_what_profiles_mean() {
    let mut random = Random(0x5eed_0002);
    let native = Arch::by_name("SCMP_ARCH_X86_64").unwrap();
    for _ in 0..6 {
        let mut profile = random.profile(native);
        profile.default_action = Action::Errno;
        profile.architectures = vec!["SCMP_ARCH_X86".into(), "SCMP_ARCH_X32".into()];
        profile.syscalls = (0..30)
            .flat_map(|value| {
                [0, 1, 2].map(|at| SeccompRule {
                    names: vec![NAMES[at * 4].into(), NAMES[at * 4 + 1].into()],
                    action: Action::Errno,
                    errno_ret: Some(100 + value * 3 + at as u32),
                    args: vec![
                        random.arg(0, Operator::Equal, u64::from(value) << 30),
                        random.arg(1, OPERATORS[random_place(at, value)], 7 * u64::from(value)),
                    ],
                })
            })
            .collect();
        let program = translate(&profile, native).unwrap();
        assert!(program.len() > 800, "{}", program.len());
        for _ in 0..1000 {
            let mut call = random.call(&profile, native);
            call.args[0] = random.below(31) << 30;
            call.args[1] = random.below(240);
            let (answer, _) = machine::run(&program, &call, true);
            assert_eq!(
                answer,
                meaning::of(&profile, native, &call),
                "{call:x?} {profile:#?}"
            );
        }
    }
}

fn random_place(at: usize, value: u32) -> usize {
    (at + value as usize) % OPERATORS.len()
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }

    fn profile(&mut self, native: Arch) -> Seccomp {
        let fitting: Vec<Arch> = Arch::all()
            .filter(|arch| arch.is_little_endian() == native.is_little_endian())
            .collect();
        let architectures = (0..self.below(4))
            .map(|_| self.one_of(&fitting).name().into())
            .collect();
        Seccomp {
            default_action: *self.one_of(&ACTIONS[..7]),
            default_errno_ret: self.errno(),
            architectures,
            flags: None,
            listener_path: String::new(),
            listener_metadata: String::new(),
            syscalls: (0..self.below(10)).map(|_| self.rule()).collect(),
        }
    }

    fn rule(&mut self) -> SeccompRule {
        SeccompRule {
            names: (0..=self.below(6))
                .map(|_| (*self.one_of(&NAMES)).into())
                .collect(),
            action: *self.one_of(&ACTIONS),
            errno_ret: self.errno(),
            args: (0..self.below(4)).map(|_| self.any_arg()).collect(),
        }
    }

    fn any_arg(&mut self) -> SeccompArg {
        let (index, op) = (self.below(6) as u32 % 3, *self.one_of(&OPERATORS));
        let value = *self.one_of(&VALUES);
        self.arg(index, op, value)
    }

    fn arg(&mut self, index: u32, op: Operator, value: u64) -> SeccompArg {
        SeccompArg {
            index,
            value,
            value_two: *self.one_of(&VALUES) & if self.below(2) == 0 { value } else { u64::MAX },
            op,
        }
    }

    fn errno(&mut self) -> Option<u32> {
        *self.one_of(&[None, Some(1), Some(38), Some(0x1_0005)])
    }

    fn call(&mut self, profile: &Seccomp, native: Arch) -> Call {
        let mut archs: Vec<Arch> = (profile.architectures.iter())
            .map(|name| Arch::by_name(name).unwrap())
            .collect();
        archs.push(native);
        let arch = *self.one_of(&archs);
        let named: Vec<u32> = (profile.syscalls.iter().flat_map(|rule| &rule.names))
            .filter_map(|name| arch.number(calls::find(name)?))
            .collect();
        let number = match self.below(8) {
            0 => *self.one_of(&[
                0,
                1,
                102,
                117,
                4102,
                4117,
                0x3fff_ffff,
                0x8000_0000,
                0xffff_fffe,
                u32::MAX,
            ]),
            1 => (self.below(600) as u32 + arch.base()) ^ ((self.below(2) as u32) << 30),
            2 => *self.one_of(&[102, 117]) + arch.base(),
            _ if named.is_empty() => self.below(500) as u32,
            3 => self.one_of(&named) + 1,
            _ => *self.one_of(&named),
        };
        Call {
            audit: if self.below(40) == 0 {
                0x1234
            } else {
                arch.audit()
            },
            number,
            args: std::array::from_fn(|_| match self.below(6) {
                0 => self.one_of(&VALUES).wrapping_add(1),
                1 => self.one_of(&VALUES).wrapping_sub(1),
                2 => 1 + self.below(25),
                _ => *self.one_of(&VALUES),
            }),
        }
    }
}
