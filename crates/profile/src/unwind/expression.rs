//! Expressions (DWARF 5, 2.5), as far as they say where registers are: in linkage tables, in the C library's
//! way back from signals, and in cryptography that is written by hand.

use super::registers::Registers;
use crate::bytes::Bytes;

/// Values at once.
const DEEPEST: usize = 32;
/// Steps of one expression: none goes back, so that it ends anyway.
pub(super) const LONGEST: usize = 1024;

/// What an expression comes to. `read` looks at eight bytes of memory.
pub(super) fn evaluate(
    expression: &[u8],
    begins_with: Option<u64>,
    registers: &Registers,
    read: impl Fn(u64) -> Option<u64>,
) -> Option<u64> {
    let mut stack: Vec<u64> = begins_with.into_iter().collect();
    let mut bytes = Bytes(expression.get(..expression.len().min(LONGEST))?);
    while let Some(code) = bytes.u8() {
        let value = match code {
            0x06 => read(stack.pop()?)?,
            0x08 => bytes.u8()?.into(),
            0x09 => i64::from(bytes.u8()? as i8) as u64,
            0x0a => bytes.u16()?.into(),
            0x0b => i64::from(bytes.u16()? as i16) as u64,
            0x0c => bytes.u32()?.into(),
            0x0d => i64::from(bytes.i32()?) as u64,
            0x03 | 0x0e | 0x0f => bytes.u64()?,
            0x10 => bytes.uleb()?,
            0x11 => bytes.sleb()? as u64,
            0x12 => *stack.last()?,
            0x13 => {
                stack.pop()?;
                continue;
            }
            0x16 => {
                let (last, before) = (stack.pop()?, stack.pop()?);
                stack.push(last);
                before
            }
            0x1a | 0x1c | 0x1e | 0x21 | 0x22 | 0x24 | 0x25 | 0x27 | 0x29..=0x2e => {
                let (last, before) = (stack.pop()?, stack.pop()?);
                of_two(code, before, last)?
            }
            0x23 => stack.pop()?.wrapping_add(bytes.uleb()?),
            0x30..=0x4f => u64::from(code - 0x30),
            0x70..=0x8f => {
                let offset = bytes.sleb()?;
                let value = registers.get(u64::from(code - 0x70))?;
                value.wrapping_add_signed(offset)
            }
            0x92 => {
                let value = registers.get(bytes.uleb()?)?;
                value.wrapping_add_signed(bytes.sleb()?)
            }
            0x96 => continue,
            _ => return None,
        };
        (stack.len() < DEEPEST).then_some(())?;
        stack.push(value);
    }
    stack.pop()
}

fn of_two(code: u8, before: u64, last: u64) -> Option<u64> {
    let (signed, other) = (before as i64, last as i64);
    let shift = u32::try_from(last).unwrap_or(u32::MAX);
    Some(match code {
        0x1a => before & last,
        0x1c => before.wrapping_sub(last),
        0x1e => before.wrapping_mul(last),
        0x21 => before | last,
        0x22 => before.wrapping_add(last),
        0x24 => before.checked_shl(shift).unwrap_or(0),
        0x25 => before.checked_shr(shift).unwrap_or(0),
        0x27 => before ^ last,
        0x29 => (signed == other).into(),
        0x2a => (signed >= other).into(),
        0x2b => (signed > other).into(),
        0x2c => (signed <= other).into(),
        0x2d => (signed < other).into(),
        0x2e => (signed != other).into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_of_a_linkage_table_is_computed() {
        // rsp + 8 + ((rip & 15) >= 11) << 3, as linkers write it; 16 is the return address's number.
        let expression = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        let at = |pc| {
            let mut registers = Registers::default();
            registers.all[7] = Some(0x1000);
            registers.all[16] = Some(pc);
            evaluate(&expression, None, &registers, |_| None)
        };
        assert_eq!(at(0x20), Some(0x1008));
        assert_eq!(at(0x2b), Some(0x1010));
    }

    #[test]
    fn no_expression_breaks_who_reads_it() {
        let none = Registers::default();
        for wrong in [&[0x06][..], &[0x22], &[0x77, 0], &[0xff], &[0x30; 40], &[]] {
            assert_eq!(evaluate(wrong, None, &none, Some), None, "{wrong:?}");
        }
        assert_eq!(
            evaluate(&[0x38, 0x06], None, &none, |at| Some(at + 1)),
            Some(9)
        );
    }
}
