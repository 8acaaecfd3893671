//! Applies a tree to a value.

use serde_json::Value;

use super::functions;
use super::parse::{Command, Node, Operand, Pipeline};

pub(super) fn render(nodes: &[Node], value: &Value) -> Result<String, String> {
    let mut state = State {
        variables: vec![(String::new(), value.clone())],
        out: String::new(),
    };
    state.all(nodes, value)?;
    Ok(state.out)
}

struct State {
    /// The innermost last; the whole value has the empty name.
    variables: Vec<(String, Value)>,
    out: String,
}

impl State {
    fn all(&mut self, nodes: &[Node], dot: &Value) -> Result<(), String> {
        let scope = self.variables.len();
        for node in nodes {
            self.one(node, dot)?;
        }
        self.variables.truncate(scope);
        Ok(())
    }

    fn one(&mut self, node: &Node, dot: &Value) -> Result<(), String> {
        let scope = self.variables.len();
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Print(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    self.out.push_str(&functions::shown(&value));
                }
                // What is set here is good until the end of the block.
                return Ok(());
            }
            Node::If(condition, then, otherwise) => {
                let value = self.pipeline(condition, dot)?;
                self.all(
                    if functions::truth(&value) {
                        then
                    } else {
                        otherwise
                    },
                    dot,
                )?;
            }
            Node::With(condition, then, otherwise) => {
                let value = self.pipeline(condition, dot)?;
                if functions::truth(&value) {
                    self.all(then, &value)?;
                } else {
                    self.all(otherwise, dot)?;
                }
            }
            Node::Range(over, then, otherwise) => self.range(over, then, otherwise, dot)?,
        }
        self.variables.truncate(scope);
        Ok(())
    }

    fn range(
        &mut self,
        over: &Pipeline,
        then: &[Node],
        otherwise: &[Node],
        dot: &Value,
    ) -> Result<(), String> {
        let entries: Vec<(Value, Value)> = match self.commands(over, dot)? {
            Value::Array(list) => list
                .into_iter()
                .enumerate()
                .map(|(index, value)| (index.into(), value))
                .collect(),
            Value::Object(map) => map
                .into_iter()
                .map(|(key, value)| (Value::String(key), value))
                .collect(),
            Value::Null => Vec::new(),
            other => return Err(format!("cannot range over {}", functions::shown(&other))),
        };
        if entries.is_empty() {
            return self.all(otherwise, dot);
        }
        let scope = self.variables.len();
        for (key, value) in entries {
            match over.variables.as_slice() {
                [] => {}
                [one] => self.variables.push((one.clone(), value.clone())),
                [first, second, ..] => {
                    self.variables.push((first.clone(), key));
                    self.variables.push((second.clone(), value.clone()));
                }
            }
            self.all(then, &value)?;
            self.variables.truncate(scope);
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let value = self.commands(pipeline, dot)?;
        if let [name] = pipeline.variables.as_slice() {
            if pipeline.assign {
                let slot = self
                    .variables
                    .iter_mut()
                    .rev()
                    .find(|(known, _)| known == name);
                slot.ok_or_else(|| format!("there is no variable ${name}"))?
                    .1 = value.clone();
            } else {
                self.variables.push((name.clone(), value.clone()));
            }
        } else if !pipeline.variables.is_empty() {
            return Err("only range sets two variables".into());
        }
        Ok(value)
    }

    fn commands(&self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let mut last = None;
        for command in &pipeline.commands {
            last = Some(self.command(command, last, dot)?);
        }
        last.ok_or_else(|| "a pipeline is empty".to_owned())
    }

    fn command(
        &self,
        command: &Command,
        last: Option<Value>,
        dot: &Value,
    ) -> Result<Value, String> {
        let mut values = Vec::with_capacity(command.operands.len() + 1);
        for operand in &command.operands {
            values.push(self.operand(operand, dot)?);
        }
        match &command.function {
            Some(function) => {
                values.extend(last);
                functions::call(function, &values)
            }
            None if last.is_some() => Err("a value can't take the result of a pipeline".into()),
            None => values.pop().ok_or_else(|| "a command is empty".to_owned()),
        }
    }

    fn operand(&self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        match operand {
            Operand::Value(value) => Ok(value.clone()),
            Operand::Field(keys) => Ok(walk(dot, keys)?.clone()),
            Operand::Variable(name, keys) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                let (_, value) = found.ok_or_else(|| format!("there is no variable ${name}"))?;
                Ok(walk(value, keys)?.clone())
            }
            Operand::Nested(pipeline, keys) => {
                let value = self.commands(pipeline, dot)?;
                Ok(walk(&value, keys)?.clone())
            }
        }
    }
}

fn walk<'a>(value: &'a Value, keys: &[String]) -> Result<&'a Value, String> {
    let mut value = value;
    for key in keys {
        let Value::Object(map) = value else {
            return Err(format!(
                "cannot look for `{key}` in {}",
                functions::shown(value)
            ));
        };
        value = map.get(key).ok_or_else(|| {
            let known: Vec<&str> = map.keys().map(String::as_str).collect();
            format!("there is no key `{key}`; the keys are {}", known.join(", "))
        })?;
    }
    Ok(value)
}
