//! `$(NAME)` in commands, arguments and variables.

use std::collections::BTreeMap;

use crate::pod::EnvVar;

/// Expands `$(NAME)` to the variable's value. `$$` becomes `$`, and an unknown name stays
/// unchanged.
pub fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest
            .strip_prefix('(')
            .and_then(|inner| inner.split_once(')'))
        {
            if let Some(value) = variables.get(name) {
                out.push_str(value);
            } else {
                out.push_str("$(");
                out.push_str(name);
                out.push(')');
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out + rest
}

/// Builds a container's variables. Each can refer to earlier ones and to `given`, which the node
/// adds and which `env` overrides.
pub fn expand_env(env: &[EnvVar], given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut variables = given.clone();
    for variable in env {
        let value = expand(&variable.value, &variables);
        variables.insert(variable.name.clone(), value);
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule() {
        let variables = BTreeMap::from([("A".to_owned(), "x".to_owned())]);
        for (text, expected) in [
            ("$(A)", "x"),
            ("-$(A)-$(A)-", "-x-x-"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$x"),
            ("$(B)", "$(B)"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &variables), expected, "{text}");
        }
    }

    #[test]
    fn a_variable_sees_only_those_before_it() {
        let env = [("B", "$(A)$(C)"), ("C", "$(B)!"), ("A", "new")].map(|(name, value)| EnvVar {
            name: name.to_owned(),
            value: value.to_owned(),
            value_from: None,
        });
        let given = BTreeMap::from([("A".to_owned(), "a".to_owned())]);
        let built = expand_env(&env, &given);
        assert_eq!(built["B"], "a$(C)");
        assert_eq!(built["C"], "a$(C)!");
        assert_eq!(built["A"], "new");
    }
}
