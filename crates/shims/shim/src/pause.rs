//! The program of a pod's own task: it only waits, and is small enough to be assembled here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::{Error, Result};

const ELF_HEAD: usize = 64;
const PROGRAM_HEAD: usize = 56;
const BASE: u64 = 0x40_0000;

/// The program: `rt_sigaction(SIGCHLD, &IGNORE, NULL, 8)`, then `pause()` in a loop.
#[cfg(target_arch = "x86_64")]
const CODE: &[u8] = &[
    0xb8, 13, 0, 0, 0, // mov eax, 13 (rt_sigaction)
    0xbf, 17, 0, 0, 0, // mov edi, 17 (SIGCHLD)
    0x48, 0x8d, 0x35, 19, 0, 0, 0, // lea rsi, [behind the code]
    0x31, 0xd2, // xor edx, edx
    0x41, 0xba, 8, 0, 0, 0, // mov r10d, 8
    0x0f, 0x05, // syscall
    0xb8, 34, 0, 0, 0, // mov eax, 34 (pause)
    0x0f, 0x05, // syscall
    0xeb, 0xf7, // jmp to the pause
];
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;

/// The program: `rt_sigaction(SIGCHLD, &IGNORE, NULL, 8)`, then `ppoll(NULL, 0, NULL, NULL)` in a loop.
#[cfg(target_arch = "aarch64")]
const CODE: &[u8] = &[
    0x20, 0x02, 0x80, 0xd2, // mov x0, 17 (SIGCHLD)
    0x81, 0x01, 0x00, 0x10, // adr x1, behind the code
    0x02, 0x00, 0x80, 0xd2, // mov x2, 0
    0x03, 0x01, 0x80, 0xd2, // mov x3, 8
    0xc8, 0x10, 0x80, 0xd2, // mov x8, 134 (rt_sigaction)
    0x01, 0x00, 0x00, 0xd4, // svc 0
    0x00, 0x00, 0x80, 0xd2, // mov x0, 0
    0x01, 0x00, 0x80, 0xd2, // mov x1, 0
    0x02, 0x00, 0x80, 0xd2, // mov x2, 0
    0x03, 0x00, 0x80, 0xd2, // mov x3, 0
    0x28, 0x09, 0x80, 0xd2, // mov x8, 73 (ppoll)
    0x01, 0x00, 0x00, 0xd4, // svc 0
    0xfa, 0xff, 0xff, 0x17, // b to the first mov of the six above
];
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

/// The kernel's `struct sigaction`: SIG_IGN, no flags, no restorer, no mask. The first process of a PID namespace
/// becomes the parent of its orphans; this setting avoids zombies.
const IGNORE: [u64; 4] = [1, 0, 0, 0];

/// Writes the program to a file.
pub(crate) fn write(path: &Path) -> Result<()> {
    let failed = || Error::file("writing", path);
    fs::write(path, program()).map_err(failed())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(failed())
}

fn program() -> Vec<u8> {
    let size = (ELF_HEAD + PROGRAM_HEAD + CODE.len() + size_of_val(&IGNORE)) as u64;
    let entry = BASE + (ELF_HEAD + PROGRAM_HEAD) as u64;
    // e_ident: 64 bits, little-endian, version 1.
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // e_type (an executable), e_machine, e_version.
    elf.extend(2_u16.to_le_bytes());
    elf.extend(MACHINE.to_le_bytes());
    elf.extend(1_u32.to_le_bytes());
    // e_entry, e_phoff, e_shoff.
    for number in [entry, ELF_HEAD as u64, 0] {
        elf.extend(number.to_le_bytes());
    }
    // e_flags, then e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx.
    elf.extend(0_u32.to_le_bytes());
    for number in [ELF_HEAD as u16, PROGRAM_HEAD as u16, 1, 64, 0, 0] {
        elf.extend(number.to_le_bytes());
    }
    // p_type (to be loaded), p_flags (readable and executable).
    elf.extend(1_u32.to_le_bytes());
    elf.extend(5_u32.to_le_bytes());
    // p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align.
    for number in [0, BASE, BASE, size, size, 0x1000] {
        elf.extend(number.to_le_bytes());
    }
    elf.extend(CODE);
    elf.extend(IGNORE.iter().flat_map(|word| word.to_le_bytes()));
    elf
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn it_waits_until_it_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pause");
        super::write(&path).unwrap();
        let mut child = Command::new(&path).spawn().expect("it can be executed");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn it_leaves_no_zombies() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pause");
        super::write(&path).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 0.2 & exec \"$0\""]).arg(&path);
        let mut child = command.spawn().expect("it can be executed");
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let children = || orlop_fs::read_kernel_text(&children).unwrap();
        let begun = std::time::Instant::now();
        let mut seen = false;
        while begun.elapsed() < Duration::from_secs(10) && !(seen && children().is_empty()) {
            seen |= !children().is_empty();
            std::thread::sleep(Duration::from_millis(10));
        }
        let left = children();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen && left.is_empty(), "{left:?} is not collected");
    }
}
