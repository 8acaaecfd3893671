//! Limit on the number of attempts with private keys.

use std::time::{Duration, Instant};

use crate::Refused;

/// Maximum number of attempts with private keys for the layers of an image, and maximum total time. An attempt with an
/// RSA key of 8192 bits takes a tenth of a second.
const MOST_TRIES: usize = 1024;
const LONGEST_TRIES: Duration = Duration::from_secs(10);

/// The remaining attempts for all layers of an image.
#[derive(Debug)]
pub struct Budget {
    tries: usize,
    began: Option<Instant>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            tries: MOST_TRIES,
            began: None,
        }
    }
}

impl Budget {
    pub(crate) fn spend(&mut self) -> Result<(), Refused> {
        self.tries = self.tries.checked_sub(1).ok_or(Refused::TooMany)?;
        let began = *self.began.get_or_insert_with(Instant::now);
        if began.elapsed() > LONGEST_TRIES {
            return Err(Refused::TooMany);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_of_keys_are_bounded_by_their_number_and_by_time() {
        let mut budget = Budget::default();
        for _ in 0..MOST_TRIES {
            budget.spend().unwrap();
        }
        assert_eq!(budget.spend(), Err(Refused::TooMany));
        let mut slow = Budget {
            tries: MOST_TRIES,
            began: Instant::now().checked_sub(2 * LONGEST_TRIES),
        };
        assert_eq!(slow.spend(), Err(Refused::TooMany));
    }
}
