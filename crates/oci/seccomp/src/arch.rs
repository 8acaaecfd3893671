//! Architectures by their names in profiles.

use crate::calls::{self, Call, Column};

/// An architecture that a profile can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arch(&'static Traits);

#[derive(Debug, PartialEq, Eq)]
struct Traits {
    name: &'static str,
    audit: u32,
    column: Column,
    base: u32,
}

/// Bits of the architecture value that the kernel passes to a filter (`linux/audit.h`).
const WIDE: u32 = 0x8000_0000;
const LITTLE: u32 = 0x4000_0000;
const MIPS_N32: u32 = 0x2000_0000;

/// Set in call numbers of x32, which the kernel otherwise reports as x86_64 (`asm/unistd.h`).
pub(crate) const X32_BIT: u32 = 0x4000_0000;

const fn traits(name: &'static str, audit: u32, column: Column) -> Traits {
    based(name, audit, column, 0)
}

const fn based(name: &'static str, audit: u32, column: Column, base: u32) -> Traits {
    Traits {
        name,
        audit,
        column,
        base,
    }
}

/// The machine numbers in audit values are those of ELF (`linux/elf-em.h`); base numbers are those of `asm/unistd.h`.
static ARCHITECTURES: [Traits; 23] = [
    traits("SCMP_ARCH_AARCH64", 0xb7 | WIDE | LITTLE, Column::Aarch64),
    traits("SCMP_ARCH_ARM", 0x28 | LITTLE, Column::Arm),
    traits(
        "SCMP_ARCH_LOONGARCH64",
        0x102 | WIDE | LITTLE,
        Column::Loongarch64,
    ),
    traits("SCMP_ARCH_M68K", 4, Column::M68k),
    based("SCMP_ARCH_MIPS", 8, Column::Mips, 4000),
    based("SCMP_ARCH_MIPS64", 0x8 | WIDE, Column::Mips64, 5000),
    based(
        "SCMP_ARCH_MIPS64N32",
        0x8 | WIDE | MIPS_N32,
        Column::Mips64N32,
        6000,
    ),
    based("SCMP_ARCH_MIPSEL", 0x8 | LITTLE, Column::Mips, 4000),
    based(
        "SCMP_ARCH_MIPSEL64",
        0x8 | WIDE | LITTLE,
        Column::Mips64,
        5000,
    ),
    based(
        "SCMP_ARCH_MIPSEL64N32",
        0x8 | WIDE | LITTLE | MIPS_N32,
        Column::Mips64N32,
        6000,
    ),
    traits("SCMP_ARCH_PARISC", 15, Column::Parisc),
    traits("SCMP_ARCH_PARISC64", 0xf | WIDE, Column::Parisc64),
    traits("SCMP_ARCH_PPC", 20, Column::Ppc),
    traits("SCMP_ARCH_PPC64", 0x15 | WIDE, Column::Ppc64),
    traits("SCMP_ARCH_PPC64LE", 0x15 | WIDE | LITTLE, Column::Ppc64),
    traits("SCMP_ARCH_RISCV64", 0xf3 | WIDE | LITTLE, Column::Riscv64),
    traits("SCMP_ARCH_S390", 22, Column::S390),
    traits("SCMP_ARCH_S390X", 0x16 | WIDE, Column::S390x),
    traits("SCMP_ARCH_SH", 0x2a | LITTLE, Column::Sh),
    traits("SCMP_ARCH_SHEB", 42, Column::Sh),
    based("SCMP_ARCH_X32", 0x3e | WIDE | LITTLE, Column::X32, X32_BIT),
    traits("SCMP_ARCH_X86", 0x3 | LITTLE, Column::X86),
    traits("SCMP_ARCH_X86_64", 0x3e | WIDE | LITTLE, Column::X86_64),
];

/// The index of this program's own architecture in the table.
const NATIVE: usize = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
    22
} else if cfg!(target_arch = "x86_64") {
    20
} else if cfg!(target_arch = "x86") {
    21
} else if cfg!(target_arch = "aarch64") {
    0
} else if cfg!(target_arch = "arm") {
    1
} else if cfg!(target_arch = "loongarch64") {
    2
} else if cfg!(all(target_arch = "powerpc64", target_endian = "little")) {
    14
} else if cfg!(target_arch = "powerpc64") {
    13
} else if cfg!(target_arch = "powerpc") {
    12
} else if cfg!(target_arch = "riscv64") {
    15
} else if cfg!(target_arch = "s390x") {
    17
} else if cfg!(all(target_arch = "mips64", target_endian = "little")) {
    8
} else if cfg!(target_arch = "mips64") {
    5
} else if cfg!(all(target_arch = "mips", target_endian = "little")) {
    7
} else if cfg!(target_arch = "mips") {
    4
} else if cfg!(target_arch = "m68k") {
    3
} else {
    panic!("the system calls of this architecture are not in the table")
};

impl Arch {
    /// The architecture that this program is built for.
    pub const NATIVE: Self = Self(&ARCHITECTURES[NATIVE]);

    /// Returns all architectures, ordered by name.
    pub fn all() -> impl Iterator<Item = Self> {
        ARCHITECTURES.iter().map(Self)
    }

    /// Finds an architecture by its name in a profile.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|arch| arch.name() == name)
    }

    /// Returns the name in a profile.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the architecture value that the kernel passes to a filter.
    pub fn audit(self) -> u32 {
        self.0.audit
    }

    pub(crate) fn column(self) -> Column {
        self.0.column
    }

    pub(crate) fn base(self) -> u32 {
        self.0.base
    }

    /// Returns the number of a call as the kernel sees it.
    pub(crate) fn number(self, call: Call) -> Option<u32> {
        call.number(self.column())
            .map(|number| number + self.base())
    }

    /// Returns whether `socketcall` and `ipc` multiplex other calls.
    pub(crate) fn multiplexes(self) -> bool {
        calls::find("socketcall").is_some_and(|call| call.number(self.column()).is_some())
    }

    pub(crate) fn is_x32(self) -> bool {
        self.column() == Column::X32
    }

    pub(crate) fn is_x86_64(self) -> bool {
        self.column() == Column::X86_64
    }

    /// Returns whether it is s390 or s390x. On both, calls that the kernel does not know arrive as number 0.
    pub(crate) fn is_s390(self) -> bool {
        matches!(self.column(), Column::S390 | Column::S390x)
    }

    /// Returns whether all 64 bits of an argument are compared: false for the two architectures with wide registers and
    /// narrow pointers.
    pub(crate) fn is_wide(self) -> bool {
        self.0.audit & WIDE != 0 && !matches!(self.column(), Column::X32 | Column::Mips64N32)
    }

    pub(crate) fn is_little_endian(self) -> bool {
        self.0.audit & LITTLE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_native_one_is_that_of_the_target() {
        let name = Arch::NATIVE.name().trim_start_matches("SCMP_ARCH_");
        let target = std::env::consts::ARCH.to_uppercase();
        assert!(
            name.starts_with(target.trim_start_matches("POWER")),
            "{name} {target}"
        );
        assert_eq!(
            Arch::NATIVE.is_little_endian(),
            cfg!(target_endian = "little")
        );
    }

    #[test]
    fn names_are_sorted_and_numbers_are_those_of_audit() {
        assert!(ARCHITECTURES.is_sorted_by(|a, b| a.name < b.name));
        let audit = |name| Arch::by_name(name).unwrap().audit();
        assert_eq!(audit("SCMP_ARCH_X86_64"), 0xc000_003e);
        assert_eq!(audit("SCMP_ARCH_X32"), 0xc000_003e);
        assert_eq!(audit("SCMP_ARCH_X86"), 0x4000_0003);
        assert_eq!(audit("SCMP_ARCH_AARCH64"), 0xc000_00b7);
        assert_eq!(audit("SCMP_ARCH_ARM"), 0x4000_0028);
        assert_eq!(audit("SCMP_ARCH_S390X"), 0x8000_0016);
        assert_eq!(audit("SCMP_ARCH_PPC64LE"), 0xc000_0015);
        assert_eq!(audit("SCMP_ARCH_RISCV64"), 0xc000_00f3);
        assert!(Arch::by_name("SCMP_ARCH_VAX").is_none());
    }
}
