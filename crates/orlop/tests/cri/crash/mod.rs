//! Parts of a node die again and again in the middle of their work, under clients that go on
//! as kubelets do.
//!
//! `make chaos` is the long form: `ORLOP_CHAOS_KILLS` says how often something dies,
//! `ORLOP_CHAOS_FAULTS` how many system calls fail, `ORLOP_CHAOS_REBOOTS` how often the power goes,
//! `ORLOP_CHAOS_DISKS` how often a disk becomes read-only, `ORLOP_CHAOS_SEED` at which moments and which.

mod clocks;
mod cycles;
mod disks;
mod ext4;
mod faults;
mod kills;
mod kubelet;
mod life;
mod memory;
mod read_only;
mod reboots;
mod remains;
mod undone;
mod victim;

pub(crate) use kubelet::{Lane, Progress};
pub(crate) use remains::Remains;

/// What was wrong in a campaign: told at once, and all of it at the end.
#[derive(Debug, Default)]
struct Wrongs(Vec<String>);

impl Wrongs {
    fn note(&mut self, wrong: String) {
        println!("WRONG {wrong}");
        self.0.push(wrong);
    }

    #[track_caller]
    fn assert_none(&self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

/// A number out of the environment.
pub(crate) fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}
