//! The disk below the daemon is full, and then it has room again.

use std::ffi::CString;
use std::io::Write;
use std::path::{Path, PathBuf};

use orlop_testkit::skip;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::Remains;
use super::life::{Life, Network, Step};
use crate::world::{World, world};

#[tokio::test]
async fn a_full_root_directory_costs_calls_and_nothing_once_there_is_room() {
    let world = world!();
    let dir = world.node.root();
    live_through(world, &dir).await;
}

#[tokio::test]
async fn a_full_state_directory_costs_calls_and_nothing_once_there_is_room() {
    let world = world!();
    let dir = world.node.state();
    live_through(world, &dir).await;
}

async fn live_through(mut world: World, dir: &Path) {
    if world.node.is_peer() {
        skip!("what containerd makes of it is its own affair");
    }
    world.node.stop();
    orlop_testkit::leaks::let_go(&world.node.state());
    let disk = Disk::mount(dir);
    world.node.start_again().await;
    world.cri = world.node.cri().await;
    world.cri.pull(&world.busybox).await.expect("pull");
    let bystander = world.run_script("bystander", "sleep 86400").await;
    let first = Life::new(&world, "first".to_owned(), Network::Own).await;
    first.go_on().await.expect("nothing is wrong yet");
    let before = Remains::of(&world.node);

    // Full from each step on.
    for (nth, from) in Step::ALL.into_iter().enumerate() {
        let mut life = Life::new(&world, format!("life{nth}"), Network::Own).await;
        for step in Step::ALL.into_iter().take_while(|step| *step < from) {
            life.step(step).await.expect("nothing is wrong yet");
        }
        disk.fill();
        for step in Step::ALL.into_iter().filter(|step| *step >= from) {
            if let Err(status) = life.step(step).await {
                println!("full since {from:?}, {step:?}: {}", status.message());
                // A runtime that finds no room says so in words of its own, or does not.
                let said = status.message().to_lowercase();
                let is_told = said.contains("no space left") || said.contains("runtime \"test\"");
                assert!(is_told, "{step:?}: {status}");
                // Later steps would miss what this one was to make.
                break;
            }
        }
        disk.make_room();
        let later = life.go_on().await.expect("all is well again");
        assert_eq!(later, Vec::<String>::new(), "full since {from:?}");
        if let Err(left) = Remains::settled(&world.node, &before).await {
            panic!("full since {from:?}: {left}");
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

    fn fill(&self) {
        let mut filler = std::fs::File::create(self.filler()).expect("make a file");
        for size in [1 << 20, 4096, 1] {
            let block = vec![1; size];
            while filler.write_all(&block).is_ok() {}
        }
    }

    fn make_room(&self) {
        std::fs::remove_file(self.filler()).expect("remove a file");
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}
