//! Hooks: each writes down what it was told.

use serde_json::{Value, json};

use super::Table;
use crate::bundle::{PROBE, Wish};
use crate::ground::{self, Ground};

pub(super) const TABLE: Table = &[
    ("hooks", |wish, _, ground| {
        wish.in_steps();
        for stage in [
            "prestart",
            "createRuntime",
            "createContainer",
            "poststart",
            "poststop",
        ] {
            note(wish, stage, ground);
        }
    }),
    ("hooks of a run", |wish, _, ground| {
        for stage in ["createRuntime", "poststop"] {
            note(wish, stage, ground);
        }
    }),
    ("a hook with an environment", |wish, _, ground| {
        wish.in_steps();
        let mut hook = hook("createRuntime", ground);
        hook["env"] = json!(["A=1", "PATH=/x"]);
        hook["timeout"] = json!(10);
        Wish::add(&mut wish.config["hooks"]["createRuntime"], hook);
        wish.config["annotations"] = json!({ "org.example.told": "to hooks" });
    }),
    ("a hook in the container", |wish, _, _| {
        wish.in_steps();
        let args = json!(["probe", "hook", "startContainer", "/made/hooks"]);
        let hook = json!({ "path": PROBE, "args": args });
        Wish::add(&mut wish.config["hooks"]["startContainer"], hook);
    }),
    ("hooks in a row", |wish, _, ground| {
        wish.in_steps();
        for _ in 0..3 {
            note(wish, "createRuntime", ground);
        }
    }),
    ("a hook that fails", |wish, _, _| {
        fail(wish, "createRuntime");
    }),
    ("a prestart hook that fails", |wish, _, _| {
        fail(wish, "prestart");
    }),
    (
        "a hook in the container's namespaces that fails",
        |wish, _, _| {
            fail(wish, "createContainer");
        },
    ),
    ("a hook after the start that fails", |wish, _, _| {
        fail(wish, "poststart");
    }),
    ("a hook after the end that fails", |wish, _, _| {
        fail(wish, "poststop");
    }),
    ("a hook that takes too long", |wish, _, _| {
        wish.in_steps();
        let hook = json!({ "path": "/bin/sleep", "args": ["sleep", "30"], "timeout": 1 });
        Wish::add(&mut wish.config["hooks"]["createRuntime"], hook);
    }),
];

fn fail(wish: &mut Wish, stage: &str) {
    wish.in_steps();
    let hook = json!({ "path": "/bin/false", "args": ["false"] });
    Wish::add(&mut wish.config["hooks"][stage], hook);
}

fn note(wish: &mut Wish, stage: &str, ground: &Ground) {
    Wish::add(&mut wish.config["hooks"][stage], hook(stage, ground));
}

fn hook(stage: &str, ground: &Ground) -> Value {
    let file = ground.bundle().join("hooks");
    json!({
        "path": ground::probe_outside(ground),
        "args": ["probe", "hook", stage, file],
    })
}
