//! Hides the arguments of processes that containers can see.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Makes process listings show `name` instead of the arguments and environment of this process, which reveal paths of
/// the node.
pub(super) fn hide_behind(name: &str) -> io::Result<()> {
    // After a change of user, root owns the process's files below /proc unless it is dumpable.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    #[expect(clippy::disallowed_methods, reason = "the kernel's, one line")]
    let stat = fs::read_to_string("/proc/self/stat")?;
    let [args, args_end, env, env_end] = places(&stat).ok_or(io::ErrorKind::InvalidData)?;
    let memory = File::options().write(true).open("/proc/self/mem")?;
    let size =
        |start: u64, end: u64| usize::try_from(end.saturating_sub(start)).map_err(io::Error::other);
    memory.write_all_at(&vec![0; size(env, env_end)?], env)?;
    let mut shown = name.as_bytes().to_vec();
    shown.resize(size(args, args_end)?, 0);
    memory.write_all_at(&shown, args)
}

/// Returns `arg_start`, `arg_end`, `env_start` and `env_end`: fields 48 to 51 of proc(5)'s `stat`.
fn places(stat: &str) -> Option<[u64; 4]> {
    // The second field, the name, may contain blanks and parentheses.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split_ascii_whitespace().skip(48 - 3);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let numbers: Vec<String> = (4..=52).map(|number| number.to_string()).collect();
        let stat = format!("7 (a) b) c) S {}\n", numbers.join(" "));
        assert_eq!(places(&stat), Some([48, 49, 50, 51]));
        assert_eq!(places("7 (short) S 4 5\n"), None);
    }
}
