//! The registers of a thread, by the numbers that DWARF gives them.

/// As many as either kind of processor has numbers for.
pub(crate) const COUNT: usize = 32;

/// Values as far as they are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registers {
    pub(crate) pc: u64,
    pub(crate) all: [Option<u64>; COUNT],
}

/// Which registers the kernel is asked for (`PERF_REG_*`), and the number of each in DWARF: none for the
/// place in the program.
#[cfg(target_arch = "x86_64")]
pub(crate) const ASKED: &[(u32, Option<usize>)] = &[
    (0, Some(0)),
    (1, Some(3)),
    (2, Some(2)),
    (3, Some(1)),
    (4, Some(4)),
    (5, Some(5)),
    (6, Some(6)),
    (7, Some(7)),
    (8, None),
    (16, Some(8)),
    (17, Some(9)),
    (18, Some(10)),
    (19, Some(11)),
    (20, Some(12)),
    (21, Some(13)),
    (22, Some(14)),
    (23, Some(15)),
];
#[cfg(target_arch = "x86_64")]
pub(super) const STACK: usize = 7;

#[cfg(target_arch = "aarch64")]
pub(crate) const ASKED: &[(u32, Option<usize>)] = &{
    let mut asked = [(0, None); 33];
    let mut number = 0;
    while number < 32 {
        asked[number] = (number as u32, Some(number));
        number += 1;
    }
    asked[32] = (32, None);
    asked
};
#[cfg(target_arch = "aarch64")]
pub(super) const STACK: usize = 31;

impl Registers {
    pub(crate) fn get(&self, number: u64) -> Option<u64> {
        *self.all.get(usize::try_from(number).ok()?)?
    }

    pub(crate) fn stack(&self) -> Option<u64> {
        self.all[STACK]
    }
}
