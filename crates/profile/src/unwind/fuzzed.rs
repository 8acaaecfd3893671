//! Bounded fuzzing of the tables by which stacks are unwound: they are in the memory of the process.

use orlop_testkit::Fuzz;

use super::expression::evaluate;
use super::frame::Frame;
use super::index::Index;
use super::memory::Memory;
use super::registers::Registers;
use super::rows::{Base, Row, Rule};
use crate::fuzzed::{file, write};

/// Where the index, what functions share, and the entry of a function are.
const INDEX: u64 = 0;
const COMMON: u64 = 24;
const ENTRY: u64 = 48;

/// An index with one row, and the entry of a function at 0x100 that it leads to.
fn tables() -> Vec<u8> {
    let mut bytes = vec![1, 0x1b, 0x03, 0x3b];
    bytes.extend((COMMON as i32 - 4).to_ne_bytes());
    bytes.extend(1_u32.to_ne_bytes());
    bytes.extend(0x100_i32.to_ne_bytes());
    bytes.extend((ENTRY as i32).to_ne_bytes());
    bytes.resize(COMMON as usize, 0);
    // Pointers count from where they are; steps of 1 and -8; 16 is where the caller goes on.
    let common = [
        &[0, 0, 0, 0, 1][..],
        b"zR\0",
        &[1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0],
    ]
    .concat();
    bytes.extend((common.len() as u32).to_ne_bytes());
    bytes.extend(common);
    bytes.resize(ENTRY as usize, 0);
    let mut entry = ((ENTRY - COMMON) as u32 + 4).to_ne_bytes().to_vec();
    entry.extend((0x100 - (ENTRY as i32 + 8)).to_ne_bytes());
    entry.extend(0x40_u32.to_ne_bytes());
    entry.extend([
        0, 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x0f, 3, 0x77, 8, 0x06,
    ]);
    bytes.extend((entry.len() as u32).to_ne_bytes());
    bytes.extend(entry);
    bytes
}

#[test]
fn no_tables_break_the_unwinding() {
    let memory = file(&tables());
    let process = Memory::of_file(memory.try_clone().unwrap());
    let entry = Index::read(&process, INDEX, COMMON).unwrap().find(0x110);
    assert_eq!(entry, Some(ENTRY));
    let frame = Frame::read(&process, ENTRY).unwrap();
    assert_eq!((frame.start, frame.end), (0x100, 0x140));
    assert!(matches!(
        Row::of(&frame, 0x13f).unwrap().frame,
        Base::Expression(_)
    ));
    Fuzz::new()
        .example(tables())
        .words([
            &[0xff; 4][..],
            &[0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
            &[0x0a],
            &[0x0b],
            &[0x16, 16, 2, 0x30, 0x24],
            b"zPLRSB\0",
        ])
        .run(|input| {
            write(&memory, input);
            let size = input.len() as u64;
            if let Some(index) = Index::read(&process, INDEX, COMMON.min(size)) {
                let _ = (index.find(0), index.find(0x110), index.find(u64::MAX));
            }
            let Some(frame) = Frame::read(&process, ENTRY) else {
                return;
            };
            for place in [frame.start, 0x110, frame.end.wrapping_sub(1)] {
                if let Some(row) = Row::of(&frame, place) {
                    carry_out(&row);
                }
            }
        });
}

/// What a row says, with registers of which some are known.
fn carry_out(row: &Row) {
    let mut registers = Registers::default();
    registers.all[7] = Some(0x7fff_0000);
    registers.all[16] = Some(u64::MAX);
    let read = |at: u64| (at & 1 == 0).then_some(at);
    if let Base::Expression(expression) = &row.frame {
        let _ = evaluate(expression, None, &registers, read);
    }
    for rule in &row.rules {
        if let Rule::AtExpression(expression) | Rule::IsExpression(expression) = rule {
            let _ = evaluate(expression, Some(1), &registers, read);
        }
    }
}
