//! Names of system calls and their numbers.

mod multiplexed;
mod table;

pub(crate) use multiplexed::Multiplexed;
use table::ROWS;

/// Table entry for a call that an architecture does not have.
const NONE: u16 = u16::MAX;

/// The first private call of ARM in the table, and its real number (`asm/unistd.h`).
const ARM_PRIVATE_ROW: u16 = 0xf000;
const ARM_PRIVATE: u32 = 0x000f_0000;

/// The columns of the table, in order: architectures that differ only in byte order share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    X86_64,
    X86,
    X32,
    Aarch64,
    Arm,
    Riscv64,
    S390x,
    S390,
    Ppc64,
    Ppc,
    Loongarch64,
    Mips,
    Mips64,
    Mips64N32,
    M68k,
    Parisc,
    Parisc64,
    Sh,
}

const COLUMNS: usize = Column::Sh as usize + 1;

/// A row of the table.
struct Row {
    name: &'static str,
    numbers: [u16; COLUMNS],
}

/// A call that any architecture has, by its row in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call(u16);

impl Call {
    pub(crate) fn name(self) -> &'static str {
        ROWS[usize::from(self.0)].name
    }

    /// Returns the number, without the base of the architecture.
    pub(crate) fn number(self, column: Column) -> Option<u32> {
        match ROWS[usize::from(self.0)].numbers[column as usize] {
            NONE => None,
            private if private >= ARM_PRIVATE_ROW => {
                Some(ARM_PRIVATE + u32::from(private - ARM_PRIVATE_ROW))
            }
            number => Some(number.into()),
        }
    }

    /// Returns the kind, if another call multiplexes it on some architectures.
    pub(crate) fn multiplexed(self) -> Option<Multiplexed> {
        MULTIPLEXED[usize::from(self.0)]
    }
}

/// Returns all calls, ordered by name.
#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = Call> {
    (0..ROWS.len()).map(|place| Call(place as u16))
}

/// Finds a call by its name.
pub(crate) fn find(name: &str) -> Option<Call> {
    let wanted = start(name);
    let first = STARTS.partition_point(|start| *start < wanted);
    let same = STARTS[first..].iter().take_while(|start| **start == wanted);
    let place = (first..)
        .zip(same)
        .find(|(place, _)| ROWS[*place].name == name);
    place.map(|(place, _)| Call(place as u16))
}

/// The first eight bytes of each name, which are faster to compare than whole names.
static STARTS: [u64; ROWS.len()] = {
    let mut starts = [0; ROWS.len()];
    let mut place = 0;
    while place < ROWS.len() {
        starts[place] = start(ROWS[place].name);
        place += 1;
    }
    starts
};

const fn start(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let (mut start, mut at) = (0, 0);
    while at < 8 {
        start = start << 8
            | if at < bytes.len() {
                bytes[at] as u64
            } else {
                0
            };
        at += 1;
    }
    start
}

static MULTIPLEXED: [Option<Multiplexed>; ROWS.len()] = {
    let mut multiplexed = [None; ROWS.len()];
    let mut place = 0;
    while place < ROWS.len() {
        multiplexed[place] = multiplexed::of(ROWS[place].name);
        place += 1;
    }
    multiplexed
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_that_the_search_needs() {
        assert!(ROWS.is_sorted_by(|a, b| a.name < b.name));
        for row in &ROWS {
            assert_eq!(find(row.name).map(Call::name), Some(row.name));
        }
    }

    /// The C library's headers are an independent copy of the kernel's tables.
    #[test]
    fn numbers_are_those_of_the_c_library() {
        macro_rules! same {
            ($($name:ident = $number:ident),* $(,)?) => {
                $(
                    let call = find(stringify!($name)).unwrap();
                    let own = call.number(crate::Arch::NATIVE.column()).unwrap();
                    let base = crate::Arch::NATIVE.base();
                    assert_eq!(i64::from(own + base), i64::from(libc::$number), stringify!($name));
                )*
            };
        }
        same!(
            read = SYS_read,
            write = SYS_write,
            clone = SYS_clone,
            execve = SYS_execve,
            ptrace = SYS_ptrace,
            mount = SYS_mount,
            bpf = SYS_bpf,
            setns = SYS_setns,
            unshare = SYS_unshare,
            openat2 = SYS_openat2,
            clone3 = SYS_clone3,
            pidfd_getfd = SYS_pidfd_getfd,
            mount_setattr = SYS_mount_setattr,
            memfd_secret = SYS_memfd_secret,
            process_mrelease = SYS_process_mrelease,
            set_mempolicy_home_node = SYS_set_mempolicy_home_node,
            exit_group = SYS_exit_group,
        );
    }

    #[test]
    fn architectures_have_numbers_of_their_own() {
        let number = |name, column| find(name).and_then(|call| call.number(column));
        assert_eq!(number("open", Column::X86), Some(5));
        assert_eq!(number("open", Column::Aarch64), None);
        assert_eq!(number("openat", Column::Aarch64), Some(56));
        assert_eq!(number("execve", Column::X32), Some(520));
        assert_eq!(number("cacheflush", Column::Arm), Some(0x000f_0002));
        assert_eq!(number("openat", Column::Riscv64), Some(56));
        assert_eq!(number("openat", Column::S390x), Some(288));
        assert_eq!(number("openat", Column::Ppc64), Some(286));
        assert!(find("no_such_call").is_none());
    }
}
