//! Which places there are, and who is in them, for people who look why something waits.

use parking_lot::Mutex;

use super::place::Place;

/// Those that had work so far; they are part of the program, and few.
static KNOWN: Mutex<Vec<&'static Place>> = Mutex::new(Vec::new());

/// Who is in a place.
#[derive(Debug, Clone)]
pub struct Occupied {
    /// The place's name.
    pub name: &'static str,
    /// How many threads it has.
    pub threads: usize,
    /// Of these, those that work.
    pub working: usize,
    /// Work that waits for a thread, or for its owner's share of them.
    pub waiting: usize,
    /// Whose work it is, and how much of the owner's share is taken; the first of them.
    pub owners: Vec<(String, usize)>,
}

/// All places that had work, with who is in them.
pub fn places() -> Vec<Occupied> {
    let known = KNOWN.lock().clone();
    known.into_iter().map(Place::occupied).collect()
}

pub(super) fn note(place: &'static Place) {
    KNOWN.lock().push(place);
}
