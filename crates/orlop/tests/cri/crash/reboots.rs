//! The power goes in each step of a pod's life, and with it all that was not on disk yet.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::{
    Container, ContainerState, ListContainersRequest, ListPodSandboxRequest, PodSandbox,
    PodSandboxState,
};
use orlop_testkit::{Chance, skip};

use super::ext4::{Ext4, Loss};
use super::life::{Life, Network, Step};
use super::{Lane, Progress, Remains, Wrongs, number};
use crate::world::{World, ours};

/// In which a step has begun and most have not ended.
const AMID: usize = 60_000;

/// When the power goes.
#[derive(Debug, Clone, Copy)]
struct Cut {
    step: Step,
    /// How long after the step began; after its end if there is none.
    amid: Option<Duration>,
    /// How long after the first step began the kernel writes down what there is, if it does.
    written: Option<Duration>,
    loss: Loss,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            step,
            amid,
            written,
            loss,
        } = self;
        write!(
            f,
            "cut {amid:?} into {step:?}, written {written:?}, {loss:?}"
        )
    }
}

#[tokio::test]
async fn a_power_cut_at_any_step_leaves_a_node_that_goes_on() {
    let mut world = ours!();
    let scratch = world.node.scratch();
    let lasting = ["root", "ipam", "cni-cache"].map(|name| scratch.path(name));
    world.node.stop();
    let disk = match Ext4::over(&world.node, lasting.into()) {
        Ok(disk) => disk,
        Err(reason) => skip!("no ext4 can be mounted: {reason}"),
    };
    world.start_again().await;
    let mut campaign = Campaign::begin(world, disk).await;
    for cut in cuts() {
        campaign.try_out(&cut).await;
    }
    campaign.end().await;
}

/// One in each step, in the middle of it or after it, and then again.
fn cuts() -> Vec<Cut> {
    let mut chance = Chance::of_seed(number("ORLOP_CHAOS_SEED", 1));
    let mut moment = |of: usize| Duration::from_micros(chance.below(of) as u64);
    let wanted = number("ORLOP_CHAOS_REBOOTS", Step::ALL.len() as u64);
    let steps = Step::ALL.into_iter().cycle();
    steps
        .zip(0..wanted)
        .map(|(step, _)| Cut {
            step,
            amid: moment(2).is_zero().then(|| moment(AMID)),
            written: moment(2).is_zero().then(|| moment(20 * AMID)),
            loss: if moment(2).is_zero() {
                Loss::Content
            } else {
                Loss::Unsynced
            },
        })
        .collect()
}

struct Campaign {
    world: World,
    disk: Ext4,
    /// A pod that was there for long when the power went.
    bystander: Lane,
    before: Remains,
    cycles: u32,
    /// What was wrong.
    wrong: Wrongs,
}

impl Campaign {
    async fn begin(mut world: World, disk: Ext4) -> Self {
        world.cri.pull(&world.busybox).await.expect("pull");
        // As every later run of the daemon finds it.
        world.restart().await;
        let bystander = bystander(&world);
        bystander.bring_up("bystander").await.expect("up");
        bystander.take_down("bystander").await.expect("down");
        let first = Life::new(&world, "first".to_owned(), Network::Own).await;
        first.go_on().await.expect("nothing is wrong yet");
        Self {
            before: Remains::of(&world.node),
            bystander,
            world,
            disk,
            cycles: 0,
            wrong: Wrongs::default(),
        }
    }

    async fn try_out(&mut self, cut: &Cut) {
        self.cycles += 1;
        self.bystander.bring_up("bystander").await.expect("up");
        let name = format!("cycle{}", self.cycles);
        let mut life = Life::new(&self.world, name, Network::Own).await;
        let (disk, written) = (&self.disk, cut.written);
        let writing = async {
            match written {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
            disk.sync();
            std::future::pending::<()>().await;
        };
        let answered = tokio::select! {
            answered = live(&mut life, cut) => answered,
            () = writing => unreachable!("it goes on for ever"),
        };
        self.disk.cut(cut.loss);
        self.world.node.reboot();
        self.disk.mount_again();
        self.world.start_again().await;
        self.bystander = bystander(&self.world);
        life.meet(&self.world);

        if let Err(running) = self.nothing_runs().await {
            self.note(cut, &running);
        }
        let is_there = life.is_known().await.expect("ask for an image");
        if is_there && let Err(status) = life.is_whole().await {
            self.note(cut, &format!("an image that is listed: {status}"));
        }
        let is_durable = answered.is_some() && cut.step < Step::RemoveImage;
        if is_durable && !is_there {
            self.note(cut, "an image is gone whose pull was answered");
        }
        match life.go_on().await {
            Ok(troubles) if troubles.is_empty() => {}
            Ok(troubles) => self.note(cut, &format!("not at once: {troubles:#?}")),
            Err(stuck) => self.note(cut, &stuck),
        }
        self.bystander.bring_up("bystander").await.expect("up");
        self.bystander.take_down("bystander").await.expect("down");
        if let Err(left) = Remains::settled(&self.world.node, &self.before).await {
            self.note(cut, &left);
            self.before = Remains::of(&self.world.node);
        }
        println!("{cut}: answered {answered:?}, its image is there: {is_there}");
    }

    /// Whatever the records say.
    async fn nothing_runs(&self) -> Result<(), String> {
        let mut runtime = self.world.cri.runtime();
        let pods = runtime.list_pod_sandbox(ListPodSandboxRequest::default());
        let pods = pods.await.expect("list the pods").into_inner().items;
        let ready = |pod: &&PodSandbox| pod.state() != PodSandboxState::SandboxNotready;
        if let Some(pod) = pods.iter().find(ready) {
            return Err(format!("ready without a process: {pod:?}"));
        }
        let containers = runtime.list_containers(ListContainersRequest::default());
        let containers = containers.await.expect("list the containers").into_inner();
        let running =
            |container: &&Container| container.state() == ContainerState::ContainerRunning;
        match containers.containers.iter().find(running) {
            Some(container) => Err(format!("running without a process: {container:?}")),
            None => Ok(()),
        }
    }

    fn note(&mut self, cut: &Cut, wrong: &str) {
        let wrong = format!("{cut}: {wrong}");
        self.wrong.note(wrong);
    }

    async fn end(self) {
        self.wrong.assert_none();
        self.disk.finish(self.world).await;
    }
}

/// Goes through a life until the power is to go. Returns the last step that was answered.
async fn live(life: &mut Life, cut: &Cut) -> Option<Step> {
    let mut answered = None;
    for step in Step::ALL {
        if step == cut.step
            && let Some(moment) = cut.amid
        {
            if let Ok(done) = tokio::time::timeout(moment, life.step(step)).await {
                done.expect("nothing is wrong yet");
                answered = Some(step);
            }
            break;
        }
        life.step(step).await.expect("nothing is wrong yet");
        answered = Some(step);
        if step == cut.step {
            break;
        }
    }
    answered
}

fn bystander(world: &World) -> Lane {
    Lane {
        pod: world.node.pod("bystander").own_network(),
        name: "bystander".to_owned(),
        cri: world.cri.clone(),
        container: world.container("main").shell("sleep 86400"),
        progress: Arc::new(Progress::default()),
    }
}
