//! Whole lives of pods back to back: how many a second one client gets, and four at once.

use std::time::{Duration, Instant};

use orlop_testkit::PodSpec;
use tokio::task::JoinSet;

use crate::report::{self, Report};
use crate::{Size, Subject, life, rows};

pub(crate) async fn run(subject: &Subject, size: Size, report: &mut Report) {
    // On runc they take so much longer.
    let lives = if subject.name == report::ORLOP {
        size.lives
    } else {
        size.lives.div_ceil(10)
    };
    for run in 0..size.runs {
        for (row, clients) in [(rows::ONE_CLIENT, 1), (rows::FOUR_CLIENTS, 4)] {
            // The kernel has torn down the networks of those before.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let of_run = format!("{run}-{clients}");
            let took = live(subject, &of_run, clients, lives).await;
            let done = (clients * lives.div_ceil(clients)) as f64;
            report.number(row, "pods/s", subject.name, done / took.as_secs_f64());
        }
    }
}

/// Has so many clients, each with a connection of its own, share the lives; returns how long they took.
async fn live(subject: &Subject, of_run: &str, clients: usize, lives: usize) -> Duration {
    let mut ready = Vec::new();
    for client in 0..clients {
        let name = |n| format!("life-{of_run}-{client}-{n}");
        let pods = (0..lives.div_ceil(clients)).map(name);
        let pods: Vec<PodSpec> = pods
            .map(|name| subject.node.pod(&name).own_network())
            .collect();
        ready.push((subject.node.cri().await, pods));
    }
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (cri, pods) in ready {
        let spec = subject.container();
        tasks.spawn(async move {
            for pod in pods {
                let up = life::bring_up(&cri, &pod, &spec).await.expect("up");
                life::take_down(&cri, up).await.expect("down");
            }
        });
    }
    tasks.join_all().await;
    start.elapsed()
}
