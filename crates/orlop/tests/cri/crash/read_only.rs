//! The disk below the daemon becomes read-only, as the kernel makes one that has failed.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use orlop_cri_api::v1::{
    ContainerState, ListContainersRequest, PodSandboxState, RuntimeCondition, StatusRequest,
};
use orlop_testkit::node::Start;
use orlop_testkit::{Chance, skip};

use super::ext4::Ext4;
use super::life::{Life, Network, Step};
use super::{Lane, Progress, Remains, Wrongs, number};
use crate::world::{Running, World, ours};

/// How long any call may take meanwhile, and a start of the daemon.
const LIMIT: Duration = Duration::from_secs(15);

/// What the kernel says.
const REASON: &str = "read-only file system";

/// What is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The root directory, and what CNI plugins keep.
    Root,
    /// The state directory, without which no command can be run.
    State,
}

#[tokio::test]
async fn a_root_directory_that_becomes_read_only_costs_calls_and_ends_no_pod() {
    live_through(ours!(), Part::Root).await;
}

#[tokio::test]
async fn a_state_directory_that_becomes_read_only_costs_calls_and_ends_no_pod() {
    live_through(ours!(), Part::State).await;
}

async fn live_through(mut world: World, part: Part) {
    let scratch = world.node.scratch();
    let directories = match part {
        Part::Root => ["root", "ipam", "cni-cache"]
            .map(|name| scratch.path(name))
            .into(),
        Part::State => vec![world.node.state()],
    };
    world.node.stop();
    orlop_testkit::leaks::let_go(&world.node.state());
    let disk = match Ext4::over(&world.node, directories) {
        Ok(disk) => disk,
        Err(reason) => skip!("no ext4 can be mounted: {reason}"),
    };
    world.start_again().await;
    world.cri.pull(&world.busybox).await.expect("pull");
    // As every later run of the daemon finds it.
    world.restart().await;
    let first = Life::new(&world, "first".to_owned(), Network::Own).await;
    first.go_on().await.expect("nothing is wrong yet");
    let before = Remains::of(&world.node);
    let mut campaign = Campaign {
        world,
        part,
        disk,
        before,
        wrong: Wrongs::default(),
    };
    let mut chance = Chance::of_seed(number("ORLOP_CHAOS_SEED", 1));
    let first = chance.below(Step::ALL.len());
    let wanted = number("ORLOP_CHAOS_DISKS", 4);
    let steps = Step::ALL.into_iter().cycle().skip(first).step_by(3);
    for (from, nth) in steps.zip(0..wanted) {
        campaign.try_out(from, nth).await;
    }
    campaign.end().await;
}

struct Campaign {
    world: World,
    part: Part,
    disk: Ext4,
    before: Remains,
    /// What was wrong.
    wrong: Wrongs,
}

impl Campaign {
    /// It is read-only from this step on.
    async fn try_out(&mut self, from: Step, nth: u64) {
        let begun = Instant::now();
        let networked = lane(&self.world);
        networked.bring_up("networked").await.expect("up");
        let bystander = self.world.run_script("bystander", "sleep 86400").await;
        let mut life = Life::new(&self.world, format!("life{nth}"), Network::Own).await;
        for step in Step::ALL.into_iter().take_while(|step| *step < from) {
            life.step(step).await.expect("nothing is wrong yet");
        }
        // Else what is only in memory still would be lost, which is another matter.
        self.disk.sync();
        self.disk.make_read_only();
        for step in Step::ALL.into_iter().filter(|step| *step >= from) {
            let what = format!("read-only since {from:?}, {step:?}");
            let Ok(done) = tokio::time::timeout(LIMIT, life.step(step)).await else {
                self.note(&what, "no answer");
                break;
            };
            if let Err(status) = done {
                println!("{what}: {}", status.message());
                if !is_told(status.message(), self.world.node.id()) {
                    self.note(&what, status);
                }
                // Later steps would miss what this one was to make.
                break;
            }
        }
        let what = format!("read-only since {from:?}");
        if let Err(wrong) = self.goes_on(&bystander).await {
            self.note(&what, wrong);
        }
        if let Err(wrong) = self.is_refused_at_the_start().await {
            self.note(&what, wrong);
        }

        self.world.node.reboot();
        self.disk.mount_again();
        if self.part == Part::State {
            let state = self.world.node.state();
            for left in fs::read_dir(&state).expect("read the state directory") {
                let left = left.expect("read the state directory").path();
                orlop_fs::remove_tree(&left).expect("empty the state directory");
            }
        }
        self.world.start_again().await;
        life.meet(&self.world);
        match life.go_on().await {
            Ok(troubles) if troubles.is_empty() => {}
            Ok(troubles) => self.note(&what, format!("not at once: {troubles:#?}")),
            Err(stuck) => self.note(&what, stuck),
        }
        self.world.cri.remove_all_pods().await.expect("remove");
        if let Err(left) = Remains::settled(&self.world.node, &self.before).await {
            self.note(&what, left);
            self.before = Remains::of(&self.world.node);
        }
        println!("{what}: {:.1?}", begun.elapsed());
    }

    /// A pod that runs is seen, entered and ended; that no other can run is told.
    async fn goes_on(&self, bystander: &Running) -> Result<(), String> {
        let cri = &self.world.cri;
        let told = |what: &'static str| move |status: tonic::Status| format!("{what}: {status}");
        let ready = runtime_ready(&self.world).await;
        if ready.status || !is_told(&ready.message, &self.dir()) {
            return Err(format!("what is told of it: {ready:?}"));
        }
        match cri.exec_within(&bystander.id, &["echo", "there"], 10).await {
            Ok(answer) if answer.stdout == b"there\n" => {}
            Err(status) if self.part == Part::State && is_told(status.message(), &self.dir()) => {}
            other => return Err(format!("a command: {other:?}")),
        }
        let status = cri.status(&bystander.id).await.map_err(told("status"))?;
        if status.state() != ContainerState::ContainerRunning {
            return Err(format!("a pod was disturbed: {status:?}"));
        }
        let listed = cri.pods().await.map_err(told("list the pods"))?;
        let mut runtime = cri.runtime();
        let containers = runtime.list_containers(ListContainersRequest::default());
        let containers = containers.await.map_err(told("list the containers"))?;
        let containers = containers.into_inner().containers;
        if !listed.contains(&bystander.pod_id)
            || !containers.iter().any(|one| one.id == bystander.id)
        {
            return Err(format!("a pod is not listed: {listed:?}, {containers:?}"));
        }
        cri.stop(&bystander.id, 0).await.map_err(told("stop"))?;
        let status = cri.status(&bystander.id).await.map_err(told("status"))?;
        if status.state() != ContainerState::ContainerExited {
            return Err(format!("a container was stopped and is {status:?}"));
        }
        match cri.stop_pod(&bystander.pod_id).await {
            Ok(()) => {}
            // What was mounted there is gone, but its directories cannot go.
            Err(status) if self.part == Part::State && is_told(status.message(), &self.dir()) => {}
            Err(status) => return Err(format!("stop a pod: {status}")),
        }
        let status = cri.pod_status(&bystander.pod_id).await;
        if status.map_err(told("status"))?.state() != PodSandboxState::SandboxNotready {
            return Err("a pod was stopped and is ready".to_owned());
        }
        match cri.remove_pod(&bystander.pod_id).await {
            Err(status) if is_told(status.message(), self.world.node.id()) => Ok(()),
            other => Err(format!("removing a pod: {other:?}")),
        }
    }

    /// A daemon that starts says what is wrong in one line, and ends.
    async fn is_refused_at_the_start(&mut self) -> Result<(), String> {
        let dir = self.dir();
        let node = &mut self.world.node;
        let begun = Instant::now();
        let ended = node.stop();
        let took = begun.elapsed();
        if !ended.success() || took > LIMIT {
            return Err(format!("the daemon ended with {ended} after {took:.1?}"));
        }
        let written = node.log().len();
        let begun = Instant::now();
        let start = node.start_again_beneath(&Command::new("env")).await;
        let took = begun.elapsed();
        let said = node.log()[written..].to_owned();
        println!("a start: {start:?} after {took:.1?}: {said}");
        let is_plain = said.trim().lines().count() == 1 && is_told(&said, &dir);
        match start {
            Some(Start::Ended(status)) if status.code() == Some(1) && is_plain && took < LIMIT => {
                Ok(())
            }
            other => Err(format!("a start: {other:?} after {took:.1?}: {said}")),
        }
    }

    /// Where it is read-only.
    fn dir(&self) -> String {
        let dir = match self.part {
            Part::Root => self.world.node.root(),
            Part::State => self.world.node.state(),
        };
        dir.to_string_lossy().into_owned()
    }

    fn note(&mut self, what: &str, wrong: impl fmt::Display) {
        let wrong = format!("{what}: {wrong}");
        self.wrong.note(wrong);
    }

    async fn end(self) {
        self.wrong.assert_none();
        self.disk.finish(self.world).await;
    }
}

/// Whether a message has the reason, and a path with these words in it.
fn is_told(message: &str, path: &str) -> bool {
    message.to_lowercase().contains(REASON) && message.contains(path)
}

/// What is told of the runtime.
pub(super) async fn runtime_ready(world: &World) -> RuntimeCondition {
    let mut runtime = world.cri.runtime();
    let answer = runtime.status(StatusRequest::default()).await;
    let status = answer.expect("ask for the status").into_inner().status;
    let mut conditions = status.expect("a status").conditions.into_iter();
    let ready = conditions.find(|condition| condition.r#type == "RuntimeReady");
    ready.expect("a condition RuntimeReady")
}

fn lane(world: &World) -> Lane {
    Lane {
        pod: world.node.pod("networked").own_network(),
        name: "networked".to_owned(),
        cri: world.cri.clone(),
        container: world.container("main").shell("sleep 86400"),
        progress: Arc::new(Progress::default()),
    }
}
