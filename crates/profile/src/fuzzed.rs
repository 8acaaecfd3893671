//! Bounded fuzzing of what a process that is looked at may have: programs, mappings, tables to unwind by.

use std::fs::File;
use std::os::fd::AsFd;

use orlop_testkit::Fuzz;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::elf::{Elf, MOST_SYMBOLS, Source, Table};

/// A program of this machine's kind with a segment of code, a build id, an index to unwind by, and two functions.
fn program() -> Vec<u8> {
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, order]);
    let segments_at = bytes.len() as u64;
    let note_at = segments_at + 3 * 56;
    let note = [
        &4_u32.to_ne_bytes()[..],
        &8_u32.to_ne_bytes(),
        &3_u32.to_ne_bytes(),
        b"GNU\0",
        &[7; 8],
    ]
    .concat();
    let names = b"\0main\0_ZN4core3fmt5write17h0123456789abcdefE\0";
    let names_at = note_at + note.len() as u64;
    let symbols_at = names_at + names.len() as u64;
    let sections_at = symbols_at + 2 * 24;
    for (kind, at, size) in [
        (1_u32, 0, sections_at),
        (4, note_at, note.len() as u64),
        (0x6474_e550, note_at, 24),
    ] {
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(5_u32.to_ne_bytes());
        for number in [at, at, at, size, size, 1] {
            bytes.extend(u64::to_ne_bytes(number));
        }
    }
    bytes.extend(&note);
    bytes.extend(names);
    for (name, address) in [(1_u32, 0_u64), (6, 32)] {
        bytes.extend(name.to_ne_bytes());
        bytes.extend([2, 0]);
        bytes.extend(1_u16.to_ne_bytes());
        bytes.extend(address.to_ne_bytes());
        bytes.extend(16_u64.to_ne_bytes());
    }
    for (kind, at, size, link) in [
        (2_u32, symbols_at, 48, 1_u32),
        (3, names_at, names.len() as u64, 0),
    ] {
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        for number in [0, 0, at, size] {
            bytes.extend(u64::to_ne_bytes(number));
        }
        bytes.extend(link.to_ne_bytes());
        bytes.extend([0; 20]);
    }
    bytes[32..40].copy_from_slice(&segments_at.to_ne_bytes());
    bytes[40..48].copy_from_slice(&sections_at.to_ne_bytes());
    for (at, number) in [(54, 56_u16), (56, 3), (58, 64), (60, 2)] {
        bytes[at..at + 2].copy_from_slice(&number.to_ne_bytes());
    }
    bytes
}

/// A file in memory.
pub(crate) fn file(bytes: &[u8]) -> File {
    let file = memfd_create("fuzzed", MemfdFlags::CLOEXEC).unwrap();
    write(&file, bytes);
    File::from(file)
}

/// Gives the file other content.
pub(crate) fn write(file: impl AsFd, bytes: &[u8]) {
    ftruncate(&file, bytes.len() as u64).unwrap();
    rustix::io::pwrite(&file, bytes, 0).unwrap();
}

#[test]
fn no_program_breaks_the_reader() {
    let example = program();
    let in_memory = file(&example);
    let whole = Elf::of(&in_memory).unwrap();
    assert_eq!(whole.build_id(&in_memory, None), Some(vec![7; 8]));
    let mut left = MOST_SYMBOLS;
    let symbols = whole.symbols(&in_memory, Table::All, &mut left);
    assert_eq!(symbols.unwrap().find(8), Some("main"));
    Fuzz::new()
        .example(example)
        .words([
            &[0xff; 8][..],
            &[0, 0, 0, 0, 0, 0, 0, 0x80],
            &[0, 0x10],
            &2_u32.to_ne_bytes(),
            &11_u32.to_ne_bytes(),
            &64_u16.to_ne_bytes(),
        ])
        .run(|input| {
            write(&in_memory, input);
            let Some(elf) = Elf::of(&in_memory) else {
                return;
            };
            let bias = elf.bias(0x1000);
            let _ = (elf.eh_frame_index(), elf.build_id(&in_memory, None));
            let _ = elf.build_id(&in_memory, bias);
            for which in [Table::All, Table::Offered] {
                let mut left = MOST_SYMBOLS;
                if let Some(symbols) = elf.symbols(&in_memory, which, &mut left) {
                    assert!(left < MOST_SYMBOLS);
                    for address in [0, 8, 40, u64::MAX] {
                        let _ = symbols.find(address);
                    }
                }
            }
            assert!(in_memory.bytes(u64::MAX, 1).is_none());
        });
}
