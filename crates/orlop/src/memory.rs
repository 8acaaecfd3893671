//! Keeps the daemon's memory small.
#![allow(unsafe_code)]

use std::fs;

/// The C library gives each thread an arena of its own and returns freed memory
/// late; with a handful of threads that costs more than the lock saves.
pub(crate) fn tune_allocator() {
    #[cfg(target_env = "gnu")]
    {
        const ARENAS: libc::c_int = 2;
        const TRIM_ABOVE: libc::c_int = 256 << 10;
        const MAP_ABOVE: libc::c_int = 256 << 10;
        // SAFETY: mallopt only sets parameters of the allocator; an unknown one
        // is refused by its return value, which changes nothing here.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, ARENAS);
            libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_ABOVE);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAP_ABOVE);
        }
    }
}

/// Gives back what only the start needed: freed memory, and the program's own pages,
/// which the kernel maps sixteen at a time around each one that is touched. Those that
/// are needed again come from the page cache.
pub(crate) fn forget_the_start() {
    for (start, length) in untouchable(&fs::read_to_string("/proc/self/maps").unwrap_or_default()) {
        // SAFETY: the range is a mapping of a file that nobody in this process can have
        // written to, so what is dropped here is read again as it was.
        unsafe {
            libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED);
        }
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The mappings (address, length) of code, and of the constants at the begin of a program.
/// Others that are read-only now were written to when the program was linked at its start.
fn untouchable(maps: &str) -> impl Iterator<Item = (usize, usize)> {
    maps.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (range, access, offset) = (words.next()?, words.next()?, words.next()?);
        let file = words.nth(2)?;
        let constants = access == "r--p" && usize::from_str_radix(offset, 16) == Ok(0);
        if !file.starts_with('/') || !(access == "r-xp" || constants) {
            return None;
        }
        let (start, end) = range.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        Some((start, end.checked_sub(start)?))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_wrote_to_is_dropped() {
        let maps = "\
            55af79514000-55af7991a000 r--p 00000000 fe:00 10060250 /usr/bin/orlop\n\
            55af7991a000-55af7aa68000 r-xp 00405000 fe:00 10060250 /usr/bin/orlop\n\
            55af7aa68000-55af7aac9000 r--p 01552000 fe:00 10060250 /usr/bin/orlop\n\
            55af7aac9000-55af7aacd000 rw-p 015b2000 fe:00 10060250 /usr/bin/orlop\n\
            55af9c1f4000-55af9c2d8000 rw-p 00000000 00:00 0 [heap]\n\
            7f0000000000-7f0000021000 r--p 00000000 00:00 0\n\
            7ffd0c5c8000-7ffd0c5ca000 r-xp 00000000 00:00 0 [vdso]\n\
            rubbish\n";
        assert_eq!(
            untouchable(maps).collect::<Vec<_>>(),
            [
                (0x55af_7951_4000, 0x40_6000),
                (0x55af_7991_a000, 0x114_e000)
            ]
        );
    }

    #[test]
    fn the_program_goes_on() {
        forget_the_start();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert!(untouchable(&maps).count() >= 2);
    }
}
