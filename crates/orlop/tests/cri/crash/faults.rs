//! System calls of the daemon fail, one at a time, in each step of a pod's life.

mod call;
mod executions;
mod fault;
mod starts;
mod tracer;

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use orlop_testkit::{Chance, Node, skip_unless};

use self::fault::{Failing, Fault, Victim};
use self::tracer::{Tracer, What};
use super::life::{Life, Network, Step};
use super::{Remains, Wrongs, number};
use crate::world::{Running, World, ours};

/// How long a call may take that something failed in, on a machine that does other things beside.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// How many faults are tried out if nobody says.
const USUAL: u64 = 25;

/// How long after an answer a runtime may still be called, to clean up after a container.
const LATE: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_system_call_that_fails_once_costs_a_call_and_leaves_nothing() {
    skip_unless!(Tracer::can_trace());
    let world = ours!();
    let mut campaign = Campaign::begin(world).await;
    let mut chance = Chance::of_seed(number("ORLOP_CHAOS_SEED", 1));
    let faults = campaign.faults(&mut chance).await;
    try_some(faults, USUAL, async |fault| campaign.try_out(fault).await).await;
    campaign.end().await;
}

/// Tries faults out until as many as wanted have happened: some had no call to fail any more.
async fn try_some<F>(faults: Vec<F>, usual: u64, mut try_out: impl AsyncFnMut(&F) -> bool) {
    let possible = faults.len();
    let wanted = number("ORLOP_CHAOS_FAULTS", usual);
    let mut injected = 0;
    for fault in faults {
        if injected == wanted {
            break;
        }
        injected += u64::from(try_out(&fault).await);
    }
    println!("{injected} faults of {possible} that were possible");
    assert!(
        injected >= wanted.min(usual),
        "only {injected} faults happened"
    );
}

/// Faults of several calls in an order of chance that begins with one of each call.
fn in_rounds<F>(of_calls: Vec<Vec<F>>, chance: &mut Chance) -> Vec<F> {
    let mut faults = Vec::new();
    for of_call in of_calls {
        let drawn = of_call
            .into_iter()
            .map(|fault| (chance.below(usize::MAX), fault));
        let mut drawn: Vec<_> = drawn.collect();
        drawn.sort_by_key(|(order, _)| *order);
        let numbered = drawn.into_iter().enumerate();
        faults.extend(numbered.map(|(round, (order, fault))| (round, order, fault)));
    }
    faults.sort_by_key(|(round, order, _)| (*round, *order));
    faults.into_iter().map(|(_, _, fault)| fault).collect()
}

struct Campaign {
    world: World,
    bystander: Running,
    /// When the bystander was started.
    started: i64,
    before: Remains,
    cycles: u32,
    /// What was wrong.
    wrong: Wrongs,
}

impl Campaign {
    async fn begin(world: World) -> Self {
        // A bystander that must not notice any of it.
        let bystander = world.run_script("bystander", "sleep 86400").await;
        let status = world.cri.status(&bystander.id).await.expect("status");
        let before = Remains::of(&world.node);
        let mut campaign = Self {
            world,
            bystander,
            started: status.started_at,
            before,
            cycles: 0,
            wrong: Wrongs::default(),
        };
        for network in [Network::Own, Network::Host] {
            let life = campaign.life(network).await;
            life.go_on().await.expect("nothing fails yet");
        }
        campaign.before = Remains::of(&campaign.world.node);
        campaign
    }

    /// All faults that a pod's life has room for, in an order that begins with one of each call in
    /// each step.
    async fn faults(&mut self, chance: &mut Chance) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (victim, network) in [
            (Victim::Daemon, Network::Own),
            (Victim::Daemon, Network::Host),
            (Victim::Keeper, Network::Own),
        ] {
            let others = keepers(&self.world.node);
            let mut life = self.life(network).await;
            for step in Step::ALL {
                let Some(pid) = self.pid_of(victim, &others) else {
                    life.step(step).await.expect("nothing fails yet");
                    continue;
                };
                let tracer = Tracer::attach(&self.world.node, pid, &What::All);
                life.step(step).await.expect("nothing fails yet");
                for (name, most) in tracer.counts() {
                    let calls = (1..=most).map(|nth| Failing::Call {
                        name: name.clone(),
                        nth,
                    });
                    let of_call = calls.flat_map(|failing| {
                        Fault::each(victim, network, step, &failing).collect::<Vec<_>>()
                    });
                    faults.push(of_call.collect());
                }
            }
            let mut life = self.life(network).await;
            for step in Step::ALL {
                let Some(pid) = self.pid_of(victim, &others) else {
                    life.step(step).await.expect("nothing fails yet");
                    continue;
                };
                let tracer = Tracer::attach(&self.world.node, pid, &What::Executions);
                life.step(step).await.expect("nothing fails yet");
                for program in tracer.executed() {
                    let failing = Failing::Execution(program);
                    faults.push(Fault::each(victim, network, step, &failing).collect());
                }
            }
        }
        in_rounds(faults, chance)
    }

    /// All faults of the executions of these programs in a pod's life, whoever executes them, in
    /// an order that begins with one of each in each step; and which of them are executed.
    async fn executions(
        &mut self,
        programs: &[String],
        chance: &mut Chance,
    ) -> (Vec<Fault>, Vec<String>) {
        let (mut faults, mut all) = (Vec::new(), BTreeSet::new());
        let network = Network::Own;
        for victim in [Victim::Daemon, Victim::Keeper] {
            let others = keepers(&self.world.node);
            let mut life = self.life(network).await;
            for step in Step::ALL {
                let tracer = self
                    .pid_of(victim, &others)
                    .map(|pid| Tracer::attach(&self.world.node, pid, &What::Executions));
                life.step(step).await.expect("nothing fails yet");
                if victim == Victim::Keeper && step >= Step::StartContainer {
                    tokio::time::sleep(LATE).await;
                }
                let executed = tracer.map(Tracer::executed_by_all).unwrap_or_default();
                for program in programs.iter().filter(|one| executed.contains(*one)) {
                    all.insert(program.clone());
                    let failing = Failing::Execution(program.clone());
                    faults.push(Fault::each(victim, network, step, &failing).collect());
                }
            }
        }
        (in_rounds(faults, chance), all.into_iter().collect())
    }

    /// The process of a victim, if there is one in this step.
    fn pid_of(&self, victim: Victim, others: &BTreeSet<u32>) -> Option<u32> {
        let node = &self.world.node;
        match victim {
            Victim::Daemon => Some(node.pid()),
            Victim::Keeper => keepers(node).difference(others).next().copied(),
        }
    }

    /// Whether there was such a call to fail.
    async fn try_out(&mut self, fault: &Fault) -> bool {
        let written = self.world.node.log().len();
        let others = keepers(&self.world.node);
        let mut life = self.life(fault.network).await;
        for step in Step::ALL.into_iter().take_while(|step| *step < fault.step) {
            if let Err(status) = life.step(step).await {
                self.note(fault, &format!("{step:?} before it: {status}"), &[]);
                break;
            }
        }
        let what = fault.what();
        let victim = self.pid_of(fault.victim, &others);
        let mut tracer = victim.map(|pid| Tracer::attach(&self.world.node, pid, &what));
        let mut injected = Vec::new();
        let begun = Instant::now();
        let answer = {
            let step = life.step(fault.step);
            tokio::pin!(step);
            loop {
                tokio::select! {
                    answer = &mut step => break answer,
                    () = tokio::time::sleep(Duration::from_millis(1)) => {
                        let hit = tracer.take_if(|tracer| !tracer.injected().is_empty());
                        if let Some(hit) = hit {
                            injected = hit.end();
                        }
                    }
                }
            }
        };
        if let Some(tracer) = tracer {
            if matches!(fault.failing, Failing::Execution(_)) {
                let _ = tokio::time::timeout(LATE, async {
                    while tracer.injected().is_empty() {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                })
                .await;
            }
            injected = tracer.end();
        }
        let took = begun.elapsed();
        if injected.iter().any(|line| line.contains("[eventfd]")) {
            self.world.node.kill9();
            self.world.node.start_again().await;
            let _ = life.go_on().await;
            return false;
        }
        // The standard library's own check of what it closes, in a debug build.
        injected.retain(|line| !line.contains("F_GETFD"));
        if took > ANSWER_LIMIT {
            self.note(fault, &format!("answered after {took:.1?}"), &injected);
        }
        if let Err(status) = &answer {
            let (said, code) = (status.message(), status.code());
            if !fault.is_told_by(said) {
                let problem = format!("the message names nothing: {code:?}: {said}");
                self.note(fault, &problem, &injected);
            }
        }
        match life.go_on().await {
            // Until the keeper is reached again, say.
            Ok(troubles) => troubles
                .iter()
                .for_each(|trouble| println!("later: {trouble}")),
            Err(stuck) => self.note(fault, &stuck, &injected),
        }
        if self.world.node.wait(Duration::ZERO).is_some() {
            self.note(fault, "the daemon has ended", &injected);
            self.world.node.kill9();
            self.world.node.start_again().await;
            let _ = life.go_on().await;
        }
        if let Err(left) = Remains::settled(&self.world.node, &self.before).await {
            self.note(fault, &left, &injected);
            self.before = Remains::of(&self.world.node);
        }
        let log = self.world.node.log();
        if log[written..].contains("panicked") {
            self.note(fault, &format!("a panic:\n{}", &log[written..]), &injected);
        }
        let status = self.world.cri.status(&self.bystander.id).await;
        if !status.is_ok_and(|status| status.started_at == self.started) {
            self.note(fault, "the bystander has gone", &injected);
        }
        println!(
            "{fault}: {took:.1?}, {:.1?}: {injected:?}: {}",
            begun.elapsed(),
            answer.map_or_else(|status| status.message().to_owned(), |()| "well".to_owned())
        );
        !injected.is_empty()
    }

    fn note(&mut self, fault: &Fault, wrong: &str, injected: &[String]) {
        let wrong = format!("{fault}: {wrong}\n{injected:#?}");
        self.wrong.note(wrong);
    }

    async fn life(&mut self, network: Network) -> Life {
        self.cycles += 1;
        Life::new(&self.world, format!("cycle{}", self.cycles), network).await
    }

    async fn end(mut self) {
        self.wrong.assert_none();
        let answer = self.world.cri.exec(&self.bystander.id, &["true"]).await;
        assert_eq!(answer.expect("a command in the bystander").exit_code, 0);
        // What is left where only the next daemon looks.
        self.world.node.restart().await;
        Remains::settle(&self.world.node, &self.before).await;
        self.world.cri = self.world.node.cri().await;
        self.world.finish().await;
    }
}

/// The keepers of this node.
fn keepers(node: &Node) -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").expect("read /proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let read = |pid: &u32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
    pids.filter(|pid| {
        read(pid, "comm").is_ok_and(|name| name == "orlop-keeper\n")
            && read(pid, "cgroup").is_ok_and(|cgroup| cgroup.contains(node.id()))
    })
    .collect()
}
