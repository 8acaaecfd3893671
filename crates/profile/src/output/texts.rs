//! Texts by numbers.

use std::collections::HashMap;
use std::rc::Rc;

/// Bytes of all texts. Those that come after them are one.
const MOST: usize = 64 << 20;
/// What stands for the texts that there is no room for.
const REST: &str = "[too many names]";

/// Texts, each once.
#[derive(Debug)]
pub(super) struct Texts {
    all: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u32>,
    left: usize,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            numbers: HashMap::new(),
            left: MOST,
        }
    }
}

impl Texts {
    /// The number of a text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        // An empty one takes room, too.
        match self.left.checked_sub(text.len() + size_of::<Rc<str>>()) {
            Some(left) => self.left = left,
            None if text == REST => {}
            None => return self.number(REST),
        }
        let text: Rc<str> = text.into();
        let number = self.all.len() as u32;
        self.all.push(Rc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    /// All, each at its number.
    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = &str> {
        self.all.iter().map(|text| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_end_have_one() {
        let mut texts = Texts::default();
        let long = "x".repeat(1 << 20);
        let numbers: Vec<u32> = (0..70)
            .map(|number| texts.number(&format!("{number}{long}")))
            .collect();
        assert_eq!(texts.all().len(), 64, "63 of them, and one for the others");
        assert_eq!(numbers[62], 62);
        assert_eq!(numbers[63..], [63; 7]);
        assert_eq!(texts.all().last(), Some(REST));
        assert_eq!(texts.number(&format!("5{long}")), 5);
    }
}
