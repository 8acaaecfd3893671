//! Child processes of a process.

/// Returns the PIDs of a process's children; empty if it has ended, or the kernel does not list them
/// (`CONFIG_PROC_CHILDREN`). A child may be missing while others end.
pub fn children_of(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| {
        let list = thread.path().join("children");
        crate::read_kernel_text(list).ok()
    });
    let pids = lists.flat_map(|list| {
        let pids = list.split_whitespace().map(str::parse);
        pids.filter_map(Result::ok).collect::<Vec<i32>>()
    });
    pids.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_every_thread_are_found() {
        let of_other_thread = std::thread::spawn(|| {
            let mut command = std::process::Command::new("sleep");
            command.arg("1000").spawn().unwrap()
        });
        let mut child = of_other_thread.join().unwrap();
        let own = std::process::id().cast_signed();
        assert!(children_of(own).contains(&child.id().cast_signed()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
