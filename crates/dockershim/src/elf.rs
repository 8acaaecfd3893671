//! The program of the built-in pause image, assembled here: a static ELF file of one page.
//!
//! ```text
//! block SIGCHLD, SIGTERM, SIGINT          rt_sigprocmask(SIG_BLOCK, &set, NULL, 8)
//! next:
//!   signal = wait for one of them         rt_sigtimedwait(&set, NULL, NULL, 8)
//!   signal < 0 (interrupted): next
//!   signal != SIGCHLD: end with 0         exit_group(0)
//! reap:
//!   wait4(-1, NULL, WNOHANG, NULL) > 0: reap
//!   next
//! set: the three signals, as a 64-bit mask
//! ```
//!
//! The kernel discards signals to the first process of a PID namespace unless they are handled. It keeps blocked
//! signals pending, so the program needs no handler.

/// `SIGCHLD`, `SIGTERM` and `SIGINT`: signal n is bit n-1 (signal(7)).
const SIGNALS: u64 = 1 << (17 - 1) | 1 << (15 - 1) | 1 << (2 - 1);

/// The load address; the usual one of static programs on both architectures.
const ADDRESS: u64 = 0x0040_0000;
/// `sizeof(Elf64_Ehdr)` and `sizeof(Elf64_Phdr)`; the code follows them.
const EHDR: u16 = 64;
const PHDR: u16 = 56;

/// Returns the program for an architecture named as in `uname -m`, and the architecture's name in images.
pub(crate) fn program(architecture: &str) -> Option<(Vec<u8>, &'static str)> {
    // `e_machine` of elf(5).
    const EM_X86_64: u16 = 62;
    const EM_AARCH64: u16 = 183;
    match architecture {
        "x86_64" | "amd64" => Some((file(EM_X86_64, &x86_64()), "amd64")),
        "aarch64" | "arm64" => Some((file(EM_AARCH64, &aarch64()), "arm64")),
        _ => None,
    }
}

/// Writes the headers of elf(5) around the code: one segment, readable and executable.
fn file(machine: u16, code: &[u8]) -> Vec<u8> {
    let headers = u64::from(EHDR + PHDR);
    let size = headers + code.len() as u64;
    let mut file = Vec::with_capacity(usize::from(EHDR + PHDR) + code.len());
    // e_ident: magic, 64 bits, little-endian, version 1, System V.
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let half = |file: &mut Vec<u8>, value: u16| file.extend(value.to_le_bytes());
    let word = |file: &mut Vec<u8>, value: u32| file.extend(value.to_le_bytes());
    let long = |file: &mut Vec<u8>, value: u64| file.extend(value.to_le_bytes());
    half(&mut file, 2); // e_type: ET_EXEC
    half(&mut file, machine);
    word(&mut file, 1); // e_version
    long(&mut file, ADDRESS + headers); // e_entry
    long(&mut file, u64::from(EHDR)); // e_phoff
    long(&mut file, 0); // e_shoff: no sections
    word(&mut file, 0); // e_flags
    half(&mut file, EHDR);
    half(&mut file, PHDR);
    half(&mut file, 1); // e_phnum
    half(&mut file, 0); // e_shentsize
    half(&mut file, 0); // e_shnum
    half(&mut file, 0); // e_shstrndx
    word(&mut file, 1); // p_type: PT_LOAD
    word(&mut file, 5); // p_flags: PF_R | PF_X
    long(&mut file, 0); // p_offset
    long(&mut file, ADDRESS); // p_vaddr
    long(&mut file, ADDRESS); // p_paddr
    long(&mut file, size); // p_filesz
    long(&mut file, size); // p_memsz
    long(&mut file, 0x1000); // p_align
    file.extend(code);
    file
}

fn x86_64() -> Vec<u8> {
    let mut code = Vec::new();
    // The jump targets, found while the code is emitted.
    let set_of_first = lay(
        &mut code,
        &[
            0xb8, 14, 0, 0, 0, // mov eax, 14 (rt_sigprocmask)
            0x31, 0xff, // xor edi, edi (SIG_BLOCK)
            0x48, 0x8d, 0x35, 0, 0, 0, 0, // lea rsi, [rip + set]
        ],
    );
    lay(
        &mut code,
        &[
            0x31, 0xd2, // xor edx, edx
            0x41, 0xba, 8, 0, 0, 0, // mov r10d, 8
            0x0f, 0x05, // syscall
        ],
    );
    let next = code.len();
    let set_of_second = lay(
        &mut code,
        &[
            0xb8, 128, 0, 0, 0, // mov eax, 128 (rt_sigtimedwait)
            0x48, 0x8d, 0x3d, 0, 0, 0, 0, // lea rdi, [rip + set]
        ],
    );
    lay(
        &mut code,
        &[
            0x31, 0xf6, // xor esi, esi
            0x31, 0xd2, // xor edx, edx
            0x41, 0xba, 8, 0, 0, 0, // mov r10d, 8
            0x0f, 0x05, // syscall
            0x83, 0xf8, 17, // cmp eax, 17 (SIGCHLD)
        ],
    );
    let to_reap = lay(&mut code, &[0x74, 0]); // je reap
    lay(&mut code, &[0x85, 0xc0]); // test eax, eax
    let interrupted = lay(&mut code, &[0x78, 0]); // js next
    lay(
        &mut code,
        &[
            0xb8, 231, 0, 0, 0, // mov eax, 231 (exit_group)
            0x31, 0xff, // xor edi, edi
            0x0f, 0x05, // syscall
        ],
    );
    let reap = code.len();
    lay(
        &mut code,
        &[
            0xb8, 61, 0, 0, 0, // mov eax, 61 (wait4)
            0x48, 0xc7, 0xc7, 0xff, 0xff, 0xff, 0xff, // mov rdi, -1
            0x31, 0xf6, // xor esi, esi
            0xba, 1, 0, 0, 0, // mov edx, 1 (WNOHANG)
            0x45, 0x31, 0xd2, // xor r10d, r10d
            0x0f, 0x05, // syscall
            0x85, 0xc0, // test eax, eax
        ],
    );
    let more = lay(&mut code, &[0x7f, 0]); // jg reap
    let again = lay(&mut code, &[0xeb, 0]); // jmp next
    let set = code.len();
    code.extend(SIGNALS.to_le_bytes());

    for at in [set_of_first, set_of_second] {
        let offset = i32::try_from(set).unwrap_or(0) - i32::try_from(at).unwrap_or(0);
        code[at - 4..at].copy_from_slice(&offset.to_le_bytes());
    }
    for (at, target) in [
        (to_reap, reap),
        (interrupted, next),
        (more, reap),
        (again, next),
    ] {
        // Both targets are within a few hundred bytes.
        code[at - 1] = (target as i64 - at as i64) as i8 as u8;
    }
    code
}

/// Appends bytes and returns the end offset, from which jumps are counted.
fn lay(code: &mut Vec<u8>, bytes: &[u8]) -> usize {
    code.extend(bytes);
    code.len()
}

fn aarch64() -> Vec<u8> {
    const SET: i64 = 28;
    const NEXT: i64 = 6;
    const REAP: i64 = 19;
    let movz = |register: u32, value: u32| 0xd280_0000 | value << 5 | register;
    let adr = |register: u32, at: i64, target: i64| {
        let offset = ((target - at) * 4) as u32 & 0x1f_ffff;
        0x1000_0000 | (offset & 3) << 29 | (offset >> 2) << 5 | register
    };
    let distance = |at: i64, target: i64, bits: u32| (target - at) as u32 & ((1 << bits) - 1);
    let branch_if = |condition: u32, at: i64, target: i64| {
        0x5400_0000 | distance(at, target, 19) << 5 | condition
    };
    const SVC: u32 = 0xd400_0001;
    const EQ: u32 = 0;
    const GT: u32 = 12;
    let compare = |register: u32, value: u32| 0xf100_001f | value << 10 | register << 5;
    let code = [
        movz(8, 135), // rt_sigprocmask
        movz(0, 0),   // SIG_BLOCK
        adr(1, 2, SET),
        movz(2, 0),
        movz(3, 8),
        SVC,
        movz(8, 137), // next: rt_sigtimedwait
        adr(0, 7, SET),
        movz(1, 0),
        movz(2, 0),
        movz(3, 8),
        SVC,
        compare(0, 17), // SIGCHLD
        branch_if(EQ, 13, REAP),
        0xb7f8_0000 | distance(14, NEXT, 14) << 5, // tbnz x0, #63, next
        movz(8, 94),                               // exit_group
        movz(0, 0),
        SVC,
        0x1400_0000 | distance(18, NEXT, 26), // not reached
        movz(8, 260),                         // reap: wait4
        0x9280_0000,                          // movn x0, #0: -1
        movz(1, 0),
        movz(2, 1), // WNOHANG
        movz(3, 0),
        SVC,
        compare(0, 0),
        branch_if(GT, 26, REAP),
        0x1400_0000 | distance(27, NEXT, 26),
    ];
    let mut bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(SIGNALS.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// Starts the program of this machine's architecture.
    fn started(dir: &std::path::Path) -> Child {
        let (program, _) = program(std::env::consts::ARCH).unwrap();
        let path = dir.join("pause");
        {
            let mut file = std::fs::File::create(&path).unwrap();
            file.write_all(&program).unwrap();
            file.set_permissions(std::fs::Permissions::from_mode(0o755))
                .unwrap();
        }
        loop {
            match Command::new(&path).spawn() {
                // Another test forked while the file was open for writing.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
                child => return child.unwrap(),
            }
        }
    }

    #[test]
    fn it_waits_until_it_is_told_to_end() {
        for signal in [Signal::TERM, Signal::INT] {
            let dir = tempfile::tempdir().unwrap();
            let mut ending = Ending(started(dir.path()));
            let child = &mut ending.0;
            let pid = Pid::from_child(child);
            waits(child.id());
            kill_process(pid, Signal::CHILD).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            assert!(child.try_wait().unwrap().is_none(), "ended by itself");
            kill_process(pid, signal).unwrap();
            let status = child.wait().unwrap();
            assert_eq!((status.code(), status.signal()), (Some(0), None));
        }
    }

    /// Waits until the process is in `rt_sigtimedwait`.
    fn waits(pid: u32) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let call = if cfg!(target_arch = "x86_64") {
            "128 "
        } else {
            "137 "
        };
        while Instant::now() < deadline {
            let now = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
            if now.is_ok_and(|now| now.starts_with(call)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("it never waited for signals");
    }

    /// Guard that kills the process, also if the test fails.
    struct Ending(Child);

    impl Drop for Ending {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn both_programs_fit_one_page_and_say_what_they_are() {
        for (architecture, machine) in [("x86_64", 62), ("aarch64", 183)] {
            let (program, _) = program(architecture).unwrap();
            assert!(program.len() < 4096);
            assert_eq!(&program[..4], b"\x7fELF");
            assert_eq!(program[18], machine);
            assert!(program.ends_with(&SIGNALS.to_le_bytes()));
        }
        assert!(super::program("riscv64").is_none());
    }

    #[test]
    fn the_words_for_aarch64_are_those_of_the_manual() {
        let code = aarch64();
        let word =
            |index: usize| u32::from_le_bytes(code[index * 4..index * 4 + 4].try_into().unwrap());
        assert_eq!(word(0), 0xd280_10e8, "mov x8, #135");
        assert_eq!(word(2), 0x1000_0341, "adr x1, .+104");
        assert_eq!(word(5), 0xd400_0001, "svc #0");
        assert_eq!(word(12), 0xf100_441f, "cmp x0, #17");
        assert_eq!(word(13), 0x5400_00c0, "b.eq .+24");
        assert_eq!(word(14), 0xb7ff_ff00, "tbnz x0, #63, .-32");
        assert_eq!(word(26), 0x54ff_ff2c, "b.gt .-28");
        assert_eq!(word(27), 0x17ff_ffeb, "b .-84");
    }
}
