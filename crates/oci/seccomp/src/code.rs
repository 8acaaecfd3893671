//! Generates the instructions of a profile.

use orlop_oci_types::SeccompOperator as Operator;

use crate::Arch;
use crate::assembler::{Assembler, Label};
use crate::fates::{Rule, Test};
use crate::instruction::{
    AND, ARCHITECTURE, ARGUMENTS, EQUAL, GREATER, GREATER_OR_EQUAL, Instruction, LOAD, NUMBER,
};
use crate::ranges::{Asked, FOREIGN, Range, Verdict};

/// Returns the program for machines, the native one first, with the ranges of each.
pub(crate) fn program(
    machines: &[(u32, Vec<Range>)],
    asked: &Asked,
    default: u32,
) -> Vec<Instruction> {
    let mut code = Code {
        assembler: Assembler::with_capacity(512),
        asked: vec![None; asked.lists.len()],
        lists: asked,
        default,
    };
    let mut next = code.assembler.answer(FOREIGN);
    for (audit, ranges) in machines.iter().rev() {
        let mut start = code.search(ranges);
        if ranges.len() > 1 {
            start = code.assembler.push(Instruction::new(LOAD, NUMBER));
        }
        next = code.assembler.compare(EQUAL, *audit, start, next);
    }
    code.assembler.push(Instruction::new(LOAD, ARCHITECTURE));
    code.assembler.finish()
}

struct Code<'a> {
    assembler: Assembler,
    /// The labels of rule lists that are already written.
    asked: Vec<Option<Label>>,
    lists: &'a Asked,
    default: u32,
}

impl Code<'_> {
    /// Writes a binary search for the range of the number in the accumulator.
    fn search(&mut self, ranges: &[Range]) -> Label {
        if let [only] = ranges {
            return self.verdict(only.verdict);
        }
        let (lower, upper) = ranges.split_at(ranges.len() / 2);
        let above = self.search(upper);
        let below = self.search(lower);
        let border = upper[0].start;
        self.assembler
            .compare(GREATER_OR_EQUAL, border, above, below)
    }

    fn verdict(&mut self, verdict: Verdict) -> Label {
        match verdict {
            Verdict::Answer(answer) => self.assembler.answer(answer),
            Verdict::Ask(place) => self.asked[place].unwrap_or_else(|| {
                let (rules, arch) = &self.lists.lists[place];
                let start = self.rules(rules, *arch);
                *self.asked[place].insert(start)
            }),
        }
    }

    /// Writes the checks of these rules, of which the first match decides.
    fn rules(&mut self, rules: &[Rule], arch: Arch) -> Label {
        let mut next = self.assembler.answer(self.default);
        for rule in rules.iter().rev() {
            let mut pass = self.assembler.answer(rule.answer);
            for test in rule.tests.iter().rev() {
                pass = self.test(*test, arch, pass, next);
            }
            next = pass;
        }
        next
    }

    /// Writes a comparison of a 64-bit argument by its 32-bit halves, or of 32 bits only.
    fn test(&mut self, test: Test, arch: Arch, pass: Label, fail: Label) -> Label {
        use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, MaskedEqual, NotEqual};
        let place = |half: u32| {
            let upper = u32::from(arch.is_little_endian());
            ARGUMENTS
                + 8 * u32::from(test.index)
                + 4 * if half == UPPER { upper } else { 1 - upper }
        };
        let value = [test.value as u32, (test.value >> 32) as u32];
        let mask = [test.mask as u32, (test.mask >> 32) as u32];
        let wide = arch.is_wide();
        match test.operator {
            Equal | MaskedEqual => {
                let mut next = pass;
                for half in [LOWER, UPPER] {
                    let bits = mask[half as usize];
                    if bits != 0 && (half == LOWER || wide) {
                        next =
                            self.half(place(half), bits, EQUAL, value[half as usize], next, fail);
                    }
                }
                next
            }
            NotEqual => self.test(
                Test {
                    operator: Equal,
                    ..test
                },
                arch,
                fail,
                pass,
            ),
            Less => self.test(
                Test {
                    operator: GreaterOrEqual,
                    ..test
                },
                arch,
                fail,
                pass,
            ),
            LessOrEqual => self.test(
                Test {
                    operator: Greater,
                    ..test
                },
                arch,
                fail,
                pass,
            ),
            Greater | GreaterOrEqual => {
                let code = if test.operator == Greater {
                    GREATER
                } else {
                    GREATER_OR_EQUAL
                };
                let lower = self.half(place(LOWER), u32::MAX, code, value[0], pass, fail);
                if !wide {
                    return lower;
                }
                let equal = self.assembler.compare(EQUAL, value[1], lower, fail);
                self.assembler.compare(GREATER, value[1], pass, equal);
                self.assembler.push(Instruction::new(LOAD, place(UPPER)))
            }
        }
    }

    /// Writes a comparison of one half of an argument.
    fn half(
        &mut self,
        place: u32,
        mask: u32,
        code: u16,
        value: u32,
        pass: Label,
        fail: Label,
    ) -> Label {
        let compare = self.assembler.compare(code, value, pass, fail);
        if mask != u32::MAX {
            self.assembler.push(Instruction::new(AND, mask));
        }
        let _ = compare;
        self.assembler.push(Instruction::new(LOAD, place))
    }
}

const LOWER: u32 = 0;
const UPPER: u32 = 1;
