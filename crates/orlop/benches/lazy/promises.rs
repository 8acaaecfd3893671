//! What SPECIFICATION.md promises of lazy images.

/// The first answer, of the time that it takes where the image is pulled whole.
pub(crate) const FIRST: f64 = 0.04;
/// Of what stargz-snapshotter takes in the same run.
pub(crate) const OF_STARGZ: f64 = 1.0;
/// Of the speed at which unpacked files are read that are cached.
pub(crate) const READ: f64 = 0.8;
/// Cached stats a second, of those of unpacked files.
pub(crate) const LOOKS: f64 = 0.5;
/// Megabytes of the server with all images.
pub(crate) const SERVER_MB: f64 = 30.0;

/// Says which are kept.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    broken: bool,
}

impl Promises {
    pub(crate) fn at_most(&mut self, what: &str, found: f64, limit: f64) {
        self.say(what, found, &format!("at most {limit}"), found <= limit);
    }

    pub(crate) fn at_least(&mut self, what: &str, found: f64, limit: f64) {
        self.say(what, found, &format!("at least {limit}"), found >= limit);
    }

    pub(crate) fn exactly_none(&mut self, what: &str, found: u64) {
        self.say(what, found as f64, "none", found == 0);
    }

    pub(crate) fn are_broken(&self) -> bool {
        self.broken
    }

    fn say(&mut self, what: &str, found: f64, limit: &str, kept: bool) {
        let verdict = if kept { "kept:" } else { "BROKEN:" };
        println!("{verdict:<7} {what}: {found:.2}, promised {limit}");
        self.broken |= !kept;
    }
}
