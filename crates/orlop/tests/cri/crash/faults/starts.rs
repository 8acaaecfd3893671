//! System calls fail while the daemon starts, beside a pod that lives.

use std::time::{Duration, Instant};

use orlop_testkit::node::Start;
use orlop_testkit::{Chance, skip_unless};

use super::super::life::{Life, Network};
use super::super::{Remains, Wrongs, number};
use super::tracer::{Tracer, What};
use super::{USUAL, call, in_rounds, try_some};
use crate::world::{Running, World, ours};

/// How long it may take until a keeper is reached again.
const REACH_LIMIT: Duration = Duration::from_secs(10);

/// Ends that others make before we have a say, each with a message that names what it lacked: the
/// loader's, and that of the reactor, which cannot wake up.
const OF_OTHERS: [&str; 2] = [
    "error while loading shared libraries",
    "failed to wake I/O driver",
];

/// What fails, and which of the calls that a thread makes.
#[derive(Debug, Clone)]
struct Fault {
    call: String,
    error: &'static str,
    nth: u32,
}

#[tokio::test]
async fn a_system_call_that_fails_while_the_daemon_starts_is_named_or_made_good() {
    skip_unless!(Tracer::can_trace());
    let world = ours!();
    let mut starts = Starts::begin(world).await;
    let mut chance = Chance::of_seed(number("ORLOP_CHAOS_SEED", 1));
    let faults = starts.faults(&mut chance).await;
    try_some(faults, USUAL, async |fault| starts.try_out(fault).await).await;
    starts.end().await;
}

struct Starts {
    world: World,
    bystander: Running,
    /// When the bystander was started.
    started: i64,
    before: Remains,
    /// What was wrong.
    wrong: Wrongs,
}

impl Starts {
    async fn begin(world: World) -> Self {
        let bystander = world.run_script("bystander", "sleep 86400").await;
        let status = world.cri.status(&bystander.id).await.expect("status");
        let life = Life::new(&world, "first".to_owned(), Network::Own).await;
        life.go_on().await.expect("nothing fails yet");
        let mut starts = Self {
            before: Remains::of(&world.node),
            world,
            bystander,
            started: status.started_at,
            wrong: Wrongs::default(),
        };
        starts.world.node.restart().await;
        starts.before = Remains::of(&starts.world.node);
        starts
    }

    /// All faults that a start has room for, in an order that begins with one of each call.
    async fn faults(&mut self, chance: &mut Chance) -> Vec<Fault> {
        let node = &mut self.world.node;
        node.stop();
        let command = Tracer::beneath(node, &What::All);
        let start = node.start_again_beneath(&command).await;
        assert_eq!(start, Some(Start::Answers), "nothing fails yet");
        let counts = Tracer::of_start(node).counts();
        let mut faults = Vec::new();
        for (call, most) in counts {
            let mut of_call = Vec::new();
            for nth in 1..=most {
                for error in call::errors_of(&call) {
                    let call = call.clone();
                    of_call.push(Fault { call, error, nth });
                }
            }
            faults.push(of_call);
        }
        in_rounds(faults, chance)
    }

    /// Whether there was such a call to fail.
    async fn try_out(&mut self, fault: &Fault) -> bool {
        let Fault { call, error, nth } = fault;
        let node = &mut self.world.node;
        node.stop();
        let written = node.log().len();
        let what = What::Fails {
            call,
            error,
            nth: *nth,
        };
        let command = Tracer::beneath(node, &what);
        let start = node.start_again_beneath(&command).await;
        let injected = match start {
            Some(Start::Answers) => Tracer::of_start(node).end(),
            _ => Tracer::of_start(node).injected(),
        };
        // So the threads of the daemon wake each other, which no kernel ever fails.
        let lost_a_wake = injected.iter().any(|line| line.contains("[eventfd]"));
        let said = node.log()[written..].to_owned();
        let last = said.lines().last().unwrap_or_default().to_owned();
        println!("{call} {nth}: {error}: {start:?}: {injected:?}: {last}");
        match start {
            Some(Start::Answers) if !lost_a_wake => {}
            Some(Start::Ended(status)) => {
                if status.code() != Some(1) && !lost_a_wake && !is_of_others(&said) {
                    self.note(fault, &format!("it ended with {status}: {said}"), &injected);
                }
                self.world.node.start_again().await;
            }
            Some(Start::Answers) | None => {
                if !lost_a_wake {
                    self.note(fault, "it neither answers nor ends", &injected);
                }
                self.world.node.kill9();
                self.world.node.start_again().await;
            }
        }
        if said.contains("panicked") && !is_of_others(&said) {
            self.note(fault, &format!("a panic:\n{said}"), &injected);
        }
        self.world.cri = self.world.node.cri().await;
        if let Err(why) = self.bystander_lives().await {
            // A record that cannot be read costs its pod until the next start, and not the node.
            if !said.contains("leaving the pod unmanaged") {
                self.note(fault, &why, &injected);
            }
            self.world.restart().await;
            if let Err(why) = self.bystander_lives().await {
                self.note(fault, &format!("after another start: {why}"), &injected);
            }
        }
        if let Err(left) = Remains::settled(&self.world.node, &self.before).await {
            self.note(fault, &left, &injected);
            self.before = Remains::of(&self.world.node);
        }
        !injected.is_empty()
    }

    /// Its keeper may be found by a second try only, while clients are served already.
    async fn bystander_lives(&self) -> Result<(), String> {
        let deadline = Instant::now() + REACH_LIMIT;
        loop {
            match self.look_at_bystander().await {
                Err(why) if Instant::now() > deadline => return Err(why),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                Ok(()) => return Ok(()),
            }
        }
    }

    async fn look_at_bystander(&self) -> Result<(), String> {
        let id = &self.bystander.id;
        let status = self.world.cri.status(id).await;
        let status = status.map_err(|status| format!("the bystander's status: {status}"))?;
        if status.started_at != self.started || status.finished_at != 0 {
            return Err(format!("the bystander is another: {status:?}"));
        }
        let answer = self.world.cri.exec_within(id, &["true"], 10).await;
        answer.map_err(|status| format!("a command in the bystander: {status}"))?;
        Ok(())
    }

    fn note(&mut self, fault: &Fault, wrong: &str, injected: &[String]) {
        let Fault { call, error, nth } = fault;
        let wrong = format!("{call} {nth}: {error}: {wrong}\n{injected:#?}");
        self.wrong.note(wrong);
    }

    async fn end(self) {
        self.wrong.assert_none();
        self.world.finish().await;
    }
}

fn is_of_others(said: &str) -> bool {
    OF_OTHERS.iter().any(|end| said.contains(end))
}
