//! Rules for tolerations, of pods and of RuntimeClasses.

use super::super::names;
use super::super::place::Place;

/// Checks a list of tolerations.
pub(super) fn check(list: &Place<'_>) {
    list.items().iter().for_each(one);
}

fn one(toleration: &Place<'_>) {
    let (key, operator) = (toleration.at("key"), toleration.at("operator"));
    let (value, effect) = (toleration.at("value"), toleration.at("effect"));
    key.may(names::qualified);
    operator.one_of(&["Equal", "Exists", "Lt", "Gt"]);
    effect.one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    if key.text().is_empty() && operator.text() != "Exists" {
        operator.wrong("must be Exists when key is empty");
    }
    match operator.text() {
        "Exists" if !value.text().is_empty() => {
            value.wrong("must be empty when operator is Exists");
        }
        "" | "Equal" => value.may(names::label_value),
        "Lt" | "Gt" if value.text().parse::<i64>().is_err() => {
            value.wrong("must be a whole number");
        }
        _ => {}
    }
    let seconds = toleration.at("tolerationSeconds");
    if seconds.is_there() && effect.text() != "NoExecute" {
        seconds.wrong("is allowed only for effect NoExecute");
    }
}
