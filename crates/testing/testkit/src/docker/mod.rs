//! A Docker Engine for tests of the docker backend.
//!
//! `ORLOP_TEST_DOCKERD` names another engine program, to run the same tests with a newer engine.
//! `ORLOP_TEST_CRI_DOCKERD` names a cri-dockerd to move pods to and from.

mod bridge;
mod cri_dockerd;
mod engine;
mod pretend;
mod settings;
mod tap;

pub use cri_dockerd::{CriDockerd, Shared};
pub use engine::{DockerEngine, can_run};
pub use pretend::{PRETENDED_SANDBOX, PretendedEngine};
pub use settings::Settings;
pub use tap::EngineTap;
