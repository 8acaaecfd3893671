//! The program of a pod's own task: it waits, and is small enough to be written down here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::{Error, Result};

const ELF_HEAD: usize = 64;
const PROGRAM_HEAD: usize = 56;
const BASE: u64 = 0x40_0000;

/// `pause()`, over and over.
#[cfg(target_arch = "x86_64")]
const CODE: &[u8] = &[
    0xb8, 34, 0, 0, 0, // mov eax, 34 (pause)
    0x0f, 0x05, // syscall
    0xeb, 0xf7, // jmp to the beginning
];
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;

/// `ppoll(NULL, 0, NULL, NULL)`, over and over.
#[cfg(target_arch = "aarch64")]
const CODE: &[u8] = &[
    0x00, 0x00, 0x80, 0xd2, // mov x0, 0
    0x01, 0x00, 0x80, 0xd2, // mov x1, 0
    0x02, 0x00, 0x80, 0xd2, // mov x2, 0
    0x03, 0x00, 0x80, 0xd2, // mov x3, 0
    0x28, 0x09, 0x80, 0xd2, // mov x8, 73 (ppoll)
    0x01, 0x00, 0x00, 0xd4, // svc 0
    0xfa, 0xff, 0xff, 0x17, // b to the beginning
];
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

/// Writes the program.
pub(crate) fn write(path: &Path) -> Result<()> {
    let failed = || Error::file("writing", path);
    fs::write(path, program()).map_err(failed())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(failed())
}

fn program() -> Vec<u8> {
    let size = (ELF_HEAD + PROGRAM_HEAD + CODE.len()) as u64;
    let entry = BASE + (ELF_HEAD + PROGRAM_HEAD) as u64;
    // e_ident: 64 bits, the lowest byte first, version 1.
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
}
