//! The disk below the daemon takes no writes, and then it does again.

use std::ffi::CString;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

use super::Remains;
use super::life::{Life, Network, Step};
use super::read_only::runtime_ready;
use crate::world::{World, ours};

/// Why it takes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Full,
    /// Files that are open already are written to all the same: else the kernel would refuse.
    ReadOnly,
}

impl Trouble {
    /// What the kernel says.
    fn reason(self) -> &'static str {
        match self {
            Self::Full => "no space left",
            Self::ReadOnly => "read-only file system",
        }
    }
}

#[tokio::test]
async fn a_full_root_directory_costs_calls_and_nothing_once_there_is_room() {
    let world = ours!();
    let dir = world.node.root();
    live_through(world, &dir, Trouble::Full).await;
}

#[tokio::test]
async fn a_full_state_directory_costs_calls_and_nothing_once_there_is_room() {
    let world = ours!();
    let dir = world.node.state();
    live_through(world, &dir, Trouble::Full).await;
}

#[tokio::test]
async fn a_read_only_root_directory_costs_calls_and_nothing_once_it_can_be_written_to() {
    let world = ours!();
    let dir = world.node.root();
    live_through(world, &dir, Trouble::ReadOnly).await;
}

#[tokio::test]
async fn a_read_only_state_directory_costs_calls_and_nothing_once_it_can_be_written_to() {
    let world = ours!();
    let dir = world.node.state();
    live_through(world, &dir, Trouble::ReadOnly).await;
}

async fn live_through(mut world: World, dir: &Path, trouble: Trouble) {
    world.node.stop();
    orlop_testkit::leaks::let_go(&world.node.state());
    let disk = Disk::mount(dir);
    world.start_again().await;
    world.cri.pull(&world.busybox).await.expect("pull");
    let bystander = world.run_script("bystander", "sleep 86400").await;
    let first = Life::new(&world, "first".to_owned(), Network::Own).await;
    first.go_on().await.expect("nothing is wrong yet");
    let before = Remains::of(&world.node);

    // From each step on.
    for (nth, from) in Step::ALL.into_iter().enumerate() {
        let mut life = Life::new(&world, format!("life{nth}"), Network::Own).await;
        for step in Step::ALL.into_iter().take_while(|step| *step < from) {
            life.step(step).await.expect("nothing is wrong yet");
        }
        disk.fall_into(trouble);
        let ready = runtime_ready(&world).await;
        assert_eq!(ready.status, trouble == Trouble::Full, "{ready:?}");
        for step in Step::ALL.into_iter().filter(|step| *step >= from) {
            if let Err(status) = life.step(step).await {
                println!("{trouble:?} since {from:?}, {step:?}: {}", status.message());
                // A runtime that can't write says so in words of its own, or does not.
                let said = status.message().to_lowercase();
                let is_told = said.contains(trouble.reason()) || said.contains("runtime \"test\"");
                assert!(is_told, "{step:?}: {status}");
                // Later steps would miss what this one was to make.
                break;
            }
        }
        disk.recover_from(trouble);
        assert!(runtime_ready(&world).await.status, "all is well again");
        let later = life.go_on().await.expect("all is well again");
        assert_eq!(later, Vec::<String>::new(), "{trouble:?} since {from:?}");
        if let Err(left) = Remains::settled(&world.node, &before).await {
            panic!("{trouble:?} since {from:?}: {left}");
        }
    }
    let answer = world.cri.exec(&bystander.id, &["true"]).await;
    assert_eq!(answer.expect("a command in the bystander").exit_code, 0);
    world.cri.remove_all_pods().await.expect("remove all pods");
    world.node.stop();
    orlop_testkit::leaks::let_go(&world.node.state());
    drop(disk);
    world.node.start_again().await;
    world.finish().await;
}

/// A small disk.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Self {
        let options = CString::new("size=32m,mode=0755").expect("options");
        let flags = MountFlags::empty();
        mount("small", at, "tmpfs", flags, options.as_c_str()).expect("mount");
        Self(at.to_owned())
    }

    fn fall_into(&self, trouble: Trouble) {
        match trouble {
            Trouble::Full => self.fill(),
            Trouble::ReadOnly => {
                mount_bind(&self.0, &self.0).expect("bind");
                let flags = MountFlags::BIND | MountFlags::RDONLY;
                mount_remount(&self.0, flags, "").expect("make it read-only");
            }
        }
    }

    fn recover_from(&self, trouble: Trouble) {
        match trouble {
            Trouble::Full => std::fs::remove_file(self.filler()).expect("remove a file"),
            Trouble::ReadOnly => unmount(&self.0, UnmountFlags::DETACH).expect("unmount"),
        }
    }

    fn fill(&self) {
        let mut filler = std::fs::File::create(self.filler()).expect("make a file");
        for size in [1 << 20, 4096, 1] {
            let block = vec![1; size];
            while filler.write_all(&block).is_ok() {}
        }
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        while unmount(&self.0, UnmountFlags::DETACH).is_ok() {}
    }
}
