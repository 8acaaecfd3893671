//! Debian's Docker Engine, for which the runtime is one more by name.

use orlop_testkit::{DockerEngine, ImageBuilder, docker, skip_unless};

use crate::engines::{IMAGE, MEMORY, OPTIONS, runtime, wait_until};

/// An engine with the runtime and an image.
fn engine() -> DockerEngine {
    let engine = DockerEngine::settings()
        .runtime("judged", &runtime())
        .start();
    engine.load(&ImageBuilder::busybox().build(), IMAGE);
    engine
}

/// `docker run` with the runtime and no network.
fn run<'a>(options: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["run", "--runtime", "judged", "--network", "none"];
    words.extend(options);
    words.push(IMAGE);
    words.extend(command);
    words
}

#[test]
fn docker_runs_execs_updates_stops_and_removes() {
    skip_unless!(docker::can_run());
    let engine = engine();
    let said = engine.docker(&run(&["--rm"], &["echo", "hello"]));
    assert_eq!(said, "hello");

    let more = [
        "--pids-limit=50",
        "--tmpfs=/tmp",
        "--ulimit=nofile=100:200",
        "--init=false",
    ];
    engine.docker(&run(&[OPTIONS, &more].concat(), &["sleep", "1000"]));
    let inspect = |template| engine.docker(&["inspect", "--format", template, "one"]);
    assert_eq!(
        inspect("{{.State.Status}} {{.HostConfig.Runtime}}"),
        "running judged"
    );
    let exec = |words: &str| engine.docker(&["exec", "one", "sh", "-c", words]);
    assert_eq!(exec("id -u; id -g"), "1000\n1000");
    assert_eq!(exec("hostname; pwd; echo $COLOUR"), "ship\n/tmp\nblue");
    assert_eq!(exec("ulimit -n; ulimit -Hn"), "100\n200");
    assert_eq!(exec("touch /no 2> /dev/null || echo sealed"), "sealed");
    assert_eq!(exec("grep -c '^CapEff:\t0*$' /proc/self/status"), "1");
    // The engine's own filter of system calls.
    assert_eq!(exec("grep '^Seccomp:' /proc/self/status"), "Seccomp:\t2");
    assert_eq!(exec(MEMORY), (64 << 20).to_string());
    let root = ["exec", "--user=0", "--env=COLOUR=red", "--workdir=/", "one"];
    let command = ["sh", "-c", "id -u; echo $COLOUR; pwd"];
    assert_eq!(engine.docker(&[&root[..], &command].concat()), "0\nred\n/");

    let code = |words: &[&str]| engine.try_docker(words).status.code();
    assert_eq!(code(&["exec", "one", "sh", "-c", "exit 7"]), Some(7));
    // Which of the two, its versions decide.
    let not_run = [Some(126), Some(127)];
    assert!(not_run.contains(&code(&["exec", "one", "/nothing"])));
    assert!(not_run.contains(&code(&["exec", "one", "/etc/passwd"])));

    engine.docker(&["update", "--memory", "128m", "--memory-swap", "128m", "one"]);
    assert_eq!(exec(MEMORY), (128 << 20).to_string());

    engine.docker(&["pause", "one"]);
    assert_eq!(inspect("{{.State.Status}}"), "paused");
    engine.docker(&["unpause", "one"]);
    assert_eq!(exec("echo awake"), "awake");
    assert!(engine.docker(&["top", "one"]).contains("sleep 1000"));
    let stats = engine.docker(&["stats", "--no-stream", "one"]);
    assert!(stats.contains("one"));

    engine.docker(&["restart", "--time", "0", "one"]);
    assert_eq!(exec("echo again"), "again");
    engine.docker(&["stop", "--time", "1", "one"]);
    assert_eq!(
        inspect("{{.State.Status}} {{.State.ExitCode}}"),
        "exited 137"
    );
    engine.docker(&["rm", "one"]);
    assert_eq!(engine.docker(&["ps", "--all", "--quiet"]), "");
}

#[test]
fn docker_understands_why_a_container_does_not_start_and_how_it_ended() {
    skip_unless!(docker::can_run());
    let engine = engine();
    let outcome = |options: &[&str], command: &[&str]| {
        let output = engine.try_docker(&run(options, command));
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert_eq!(outcome(&["--rm"], &["sh", "-c", "exit 3"]).0, Some(3));
    // The engine finds these in the runtime's words.
    let (code, said) = outcome(&["--rm"], &["/nothing"]);
    assert_eq!(code, Some(127), "{said}");
    let (code, said) = outcome(&["--rm"], &["/etc/passwd"]);
    assert_eq!(code, Some(126), "{said}");
    let (code, said) = outcome(&["--rm", "--workdir", "/etc/passwd"], &["true"]);
    assert!(code.is_some_and(|code| code != 0), "{said}");
    let eats = "x=x; while :; do x=$x$x; done";
    let (code, said) = outcome(&["--name", "eats", "--memory", "16m"], &["sh", "-c", eats]);
    assert_eq!(code, Some(137), "{said}");
    let killed = engine.docker(&["inspect", "--format", "{{.State.OOMKilled}}", "eats"]);
    assert_eq!(killed, "true");
}

#[test]
fn docker_has_terminals_signals_and_worlds_that_are_shared() {
    skip_unless!(docker::can_run());
    let engine = engine();
    // A terminal of its own; nobody types.
    engine.docker(&run(
        &["--detach", "--tty", "--name", "tty"],
        &["sh", "-c", "tty; stty size; sleep 1000"],
    ));
    wait_until("it says what its terminal is", || {
        engine.docker(&["logs", "tty"]).contains("/dev/pts/0")
    });
    let told = engine.docker(&["exec", "--tty", "tty", "tty"]);
    assert!(told.starts_with("/dev/pts/"), "{told}");

    let trap = "trap 'echo hup' HUP; trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    engine.docker(&run(&["--detach", "--name", "traps"], &["sh", "-c", trap]));
    wait_until("it is ready", || {
        engine.docker(&["logs", "traps"]).contains("ready")
    });
    engine.docker(&["kill", "--signal", "HUP", "traps"]);
    wait_until("it saw the signal", || {
        engine.docker(&["logs", "traps"]).contains("hup")
    });
    engine.docker(&["stop", "traps"]);
    assert_eq!(
        engine.docker(&["inspect", "--format", "{{.State.ExitCode}}", "traps"]),
        "5"
    );

    let free = [
        "--rm",
        "--cap-add=SYS_ADMIN",
        "--security-opt=seccomp=unconfined",
    ];
    let mount = "mkdir /m && mount -t tmpfs none /m && echo mounted";
    let said = engine.docker(&run(&free, &["sh", "-c", mount]));
    assert_eq!(said, "mounted");
    let said = engine.docker(&run(
        &["--rm", "--pid", "host", "--ipc", "host"],
        &["sh", "-c", "echo $$"],
    ));
    assert!(said.parse::<u32>().unwrap() > 1, "{said}");
    let shared = ["--rm", "--pid", "container:traps"];
    engine.docker(&["start", "traps"]);
    let said = engine.docker(&run(&shared, &["sh", "-c", "ps | grep -c 'trap'"]));
    assert_ne!(said, "0");
}
