//! System calls that the default seccomp profile denies, however a program makes them.

use orlop_testkit::node::run_binary;
use orlop_testkit::{ContainerSpec, ImageBuilder, Layer, PodSpec};

use crate::reload::{applied, run_by, which};
use crate::world::{Running, World, ours};

/// Address families (`linux/socket.h`), and one that is `AF_VSOCK` with a bit that the kernel ignores.
const INET: u64 = 2;
const ALG: u64 = 38;
const VSOCK: u64 = 40;
const VSOCK_AND_MORE: u64 = 1 << 32 | VSOCK;

const STREAM: u64 = 1;

/// `SYS_SOCKET` (`linux/net.h`).
const SYS_SOCKET: u64 = 1;

/// CVE-2026-31431: the kernel's ciphers, reached from a container by a socket.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_creates_a_socket_of_a_denied_family() {
    let world = ours!();
    let image = ImageBuilder::new().layer(Layer::new().file("calls", program(), 0o755));
    let image = world.image(&image.build(), "calls").await;
    let (own, runc) = (run_binary(), which("runc"));
    let runtimes =
        format!("[runtimes.ours]\npath = {own:?}\n[runtimes.by-runc]\npath = {runc:?}\n");
    for (deny_socketcall, expected) in [(false, "opppopo"), (true, "opppopnn")] {
        let key = format!("[containers]\nseccomp_deny_socketcall = {deny_socketcall}\n");
        applied(&world, &format!("{key}{runtimes}"));
        for handler in ["ours", "by-runc"] {
            let pod = world.node.pod(&format!("{handler}-{deny_socketcall}"));
            let told = answers(&world, &image, handler, pod).await;
            assert!(told.starts_with(expected), "{handler} {key}: {told}");
        }
    }
    world.finish().await;
}

/// What the program prints in a container of this pod and handler.
async fn answers(world: &World, image: &str, handler: &str, pod: PodSpec) -> String {
    let pod_id = run_by(world, &pod, handler).await.expect("a pod");
    let spec = ContainerSpec::new("main", image).command(&["/calls"]);
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let status = world.cri.wait_exited(&id).await;
    let running = Running { pod, pod_id, id };
    let told = running.stdout();
    assert_eq!(status.exit_code, 0, "{handler}: {told}");
    let removed = world.cri.remove_pod(&running.pod_id).await;
    removed.expect("remove the pod");
    told
}

/// How a call is made: by the instruction of 64-bit programs, or by that of 32-bit ones (`int 0x80`).
#[derive(Clone, Copy)]
#[repr(u64)]
enum Way {
    Wide = 0,
    Narrow = 1,
}

/// Where the program lies in memory, its calls, and the arguments of `socketcall`: below 4 GiB, so that
/// 32-bit calls reach them.
const BASE: u64 = 0x40_0000;
const CALLS: usize = 0x100;
const LISTS: usize = 0x400;
const ALG_LIST: u64 = BASE + LISTS as u64;
const INET_LIST: u64 = ALG_LIST + 12;

/// The number of a call, as in `asm/unistd_64.h` and `asm/unistd_32.h`, with its arguments.
const MADE: [(Way, [u64; 4]); 8] = [
    (Way::Wide, [41, INET, STREAM, 0]),
    (Way::Wide, [41, VSOCK, STREAM, 0]),
    (Way::Wide, [41, VSOCK_AND_MORE, STREAM, 0]),
    (Way::Wide, [41, ALG, STREAM, 0]),
    (Way::Narrow, [359, INET, STREAM, 0]),
    (Way::Narrow, [359, VSOCK, STREAM, 0]),
    (Way::Narrow, [102, SYS_SOCKET, INET_LIST, 0]),
    (Way::Narrow, [102, SYS_SOCKET, ALG_LIST, 0]),
];

/// A static program for x86-64 that makes these calls and prints a letter for each: `o` if it succeeds,
/// `p` for EPERM, `n` for ENOSYS and `x` for any other error.
fn program() -> Vec<u8> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut file: Vec<u8> = [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 9]].concat();
    let code_at = 64 + 56;
    // ET_EXEC for EM_X86_64; then the entry, where the only program header is, and the sizes of both.
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    file.extend::<Vec<u8>>(words(&[BASE + code_at, 64, 0]));
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    // PT_LOAD, to be read and executed.
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let size = LISTS as u64 + 24;
    file.extend::<Vec<u8>>(words(&[0, BASE, BASE, size, size, 0x1000]));
    file.extend(CODE);
    assert!(file.len() <= CALLS, "{}", file.len());
    file.resize(CALLS, 0);
    for (way, call) in MADE {
        file.extend::<Vec<u8>>(words(&[way as u64]));
        file.extend::<Vec<u8>>(words(&call));
    }
    file.extend::<Vec<u8>>(words(&[2]));
    assert!(file.len() <= LISTS, "{}", file.len());
    file.resize(LISTS, 0);
    for family in [ALG, INET] {
        for argument in [family, STREAM, 0] {
            file.extend((argument as u32).to_le_bytes());
        }
    }
    file
}

/// The code of the program; `r12` is where the call stands that is made, `r13` where its letter goes.
#[rustfmt::skip]
const CODE: [u8; 123] = [
    0x41, 0xbc, 0x00, 0x01, 0x40, 0x00,       // 00: mov r12d, BASE + CALLS
    0x48, 0x83, 0xec, 0x40,                   // 06: sub rsp, 64
    0x49, 0x89, 0xe5,                         // 0a: mov r13, rsp
    0x49, 0x8b, 0x44, 0x24, 0x08,             // 0d: mov rax, [r12 + 8]
    0x49, 0x8b, 0x7c, 0x24, 0x10,             // 12: mov rdi, [r12 + 16]
    0x49, 0x8b, 0x74, 0x24, 0x18,             // 17: mov rsi, [r12 + 24]
    0x49, 0x8b, 0x54, 0x24, 0x20,             // 1c: mov rdx, [r12 + 32]
    0x49, 0x83, 0x3c, 0x24, 0x01,             // 21: cmp qword ptr [r12], Narrow
    0x72, 0x0a,                               // 26: jb 32
    0x77, 0x2d,                               // 28: ja 57
    0x89, 0xfb,                               // 2a: mov ebx, edi
    0x89, 0xf1,                               // 2c: mov ecx, esi
    0xcd, 0x80,                               // 2e: int 0x80
    0xeb, 0x02,                               // 30: jmp 34
    0x0f, 0x05,                               // 32: syscall
    0xb1, b'o',                               // 34: mov cl, 'o'
    0x85, 0xc0,                               // 36: test eax, eax
    0x79, 0x10,                               // 38: jns 4a
    0xb1, b'p',                               // 3a: mov cl, 'p'
    0x83, 0xf8, 0xff,                         // 3c: cmp eax, -EPERM
    0x74, 0x09,                               // 3f: je 4a
    0xb1, b'n',                               // 41: mov cl, 'n'
    0x83, 0xf8, 0xda,                         // 43: cmp eax, -ENOSYS
    0x74, 0x02,                               // 46: je 4a
    0xb1, b'x',                               // 48: mov cl, 'x'
    0x41, 0x88, 0x4d, 0x00,                   // 4a: mov [r13], cl
    0x49, 0xff, 0xc5,                         // 4e: inc r13
    0x49, 0x83, 0xc4, 0x28,                   // 51: add r12, 40
    0xeb, 0xb6,                               // 55: jmp 0d
    0x41, 0xc6, 0x45, 0x00, b'\n',            // 57: mov byte ptr [r13], '\n'
    0xbf, 0x01, 0x00, 0x00, 0x00,             // 5c: mov edi, 1
    0x48, 0x89, 0xe6,                         // 61: mov rsi, rsp
    0x49, 0x8d, 0x55, 0x01,                   // 64: lea rdx, [r13 + 1]
    0x48, 0x29, 0xe2,                         // 68: sub rdx, rsp
    0xb8, 0x01, 0x00, 0x00, 0x00,             // 6b: mov eax, 1 (write)
    0x0f, 0x05,                               // 70: syscall
    0x31, 0xff,                               // 72: xor edi, edi
    0xb8, 0xe7, 0x00, 0x00, 0x00,             // 74: mov eax, 231 (exit_group)
    0x0f, 0x05,                               // 79: syscall
];
