//! Evaluates a tree with a value.

use std::cell::Cell;

use serde_json::Value;

use crate::display::shown;
use crate::functions;
use crate::parse::{Command, Node, Operand, Pipeline};

/// Limit of evaluated nodes and operands.
const MOST_STEPS: usize = 1_000_000;

/// Limit of printed bytes, and of the size of an intermediate text.
const MOST_BYTES: usize = 16 << 20;

pub(crate) fn render(nodes: &[Node], value: &Value) -> Result<String, String> {
    let mut state = State {
        steps: Cell::new(0),
        variables: vec![(String::new(), value.clone())],
        out: String::new(),
    };
    state.all(nodes, value)?;
    Ok(state.out)
}

/// The control flow after a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    /// Leaves the innermost `range`.
    Break,
    /// Continues with the next value of `range`.
    Continue,
}

struct State {
    steps: Cell<usize>,
    /// The innermost variable is last; the whole value has the empty name.
    variables: Vec<(String, Value)>,
    out: String,
}

impl State {
    fn all(&mut self, nodes: &[Node], dot: &Value) -> Result<Flow, String> {
        let scope = self.variables.len();
        let mut flow = Flow::On;
        for node in nodes {
            flow = self.one(node, dot)?;
            if flow != Flow::On {
                break;
            }
        }
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn one(&mut self, node: &Node, dot: &Value) -> Result<Flow, String> {
        self.step()?;
        let scope = self.variables.len();
        let flow = match node {
            Node::Text(text) => {
                self.print(text)?;
                Flow::On
            }
            Node::Print(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    self.print(&shown(&value))?;
                }
                // Variables set here are valid until the end of the block.
                return Ok(Flow::On);
            }
            Node::If(condition, then, otherwise) => {
                let value = self.pipeline(condition, dot)?;
                let branch = if functions::truth(&value) {
                    then
                } else {
                    otherwise
                };
                self.all(branch, dot)?
            }
            Node::With(condition, then, otherwise) => {
                let value = self.pipeline(condition, dot)?;
                if functions::truth(&value) {
                    self.all(then, &value)?
                } else {
                    self.all(otherwise, dot)?
                }
            }
            Node::Range(over, then, otherwise) => self.range(over, then, otherwise, dot)?,
            Node::Break => Flow::Break,
            Node::Continue => Flow::Continue,
        };
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn range(
        &mut self,
        over: &Pipeline,
        then: &[Node],
        otherwise: &[Node],
        dot: &Value,
    ) -> Result<Flow, String> {
        let whole = self.commands(over, dot)?;
        let entries: Box<dyn Iterator<Item = (Value, Value)>> = match whole {
            Value::Array(list) => {
                let numbered = list.into_iter().enumerate();
                Box::new(numbered.map(|(index, value)| (index.into(), value)))
            }
            Value::Object(map) => Box::new(map.into_iter().map(|(key, value)| (key.into(), value))),
            Value::Number(number) if number.is_i64() || number.is_u64() => {
                if over.variables.len() > 1 {
                    return Err(format!(
                        "a range over a number ({number}) can set only one variable"
                    ));
                }
                // A negative number means no iteration; each step is counted.
                let end = number.as_u64().unwrap_or(0);
                Box::new((0..end).map(|at| (at.into(), at.into())))
            }
            Value::Null => Box::new(std::iter::empty()),
            other => return Err(format!("cannot range over {}", shown(&other))),
        };
        let scope = self.variables.len();
        let mut is_empty = true;
        for (key, value) in entries {
            self.step()?;
            is_empty = false;
            let values = match over.variables.len() {
                0 => Vec::new(),
                1 => vec![value.clone()],
                _ => vec![key, value.clone()],
            };
            for (name, value) in over.variables.iter().zip(values) {
                self.set(name, value, over.assign)?;
            }
            let flow = self.all(then, &value)?;
            self.variables.truncate(scope);
            if flow == Flow::Break {
                break;
            }
        }
        if is_empty {
            return self.all(otherwise, dot);
        }
        Ok(Flow::On)
    }

    fn step(&self) -> Result<(), String> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if steps > MOST_STEPS {
            return Err(format!("the template takes more than {MOST_STEPS} steps"));
        }
        Ok(())
    }

    fn print(&mut self, text: &str) -> Result<(), String> {
        if self.out.len() + text.len() > MOST_BYTES {
            return Err(format!("the output is longer than {MOST_BYTES} bytes"));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn set(&mut self, name: &str, value: Value, assign: bool) -> Result<(), String> {
        if !assign {
            self.variables.push((name.to_owned(), value));
            return Ok(());
        }
        let mut known = self.variables.iter_mut().rev();
        let slot = known.find(|(known, _)| known == name);
        slot.ok_or_else(|| format!("undefined variable ${name}"))?.1 = value;
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let value = self.commands(pipeline, dot)?;
        match pipeline.variables.as_slice() {
            [] => {}
            [name] => self.set(name, value.clone(), pipeline.assign)?,
            _ => return Err("only range can set two variables".into()),
        }
        Ok(value)
    }

    fn commands(&self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let mut last = None;
        for command in &pipeline.commands {
            last = Some(self.command(command, last, dot)?);
        }
        last.ok_or_else(|| "empty pipeline".to_owned())
    }

    fn command(
        &self,
        command: &Command,
        last: Option<Value>,
        dot: &Value,
    ) -> Result<Value, String> {
        let mut values = Vec::with_capacity(command.operands.len() + 1);
        for operand in &command.operands {
            self.step()?;
            let value = self.operand(operand, dot)?;
            let function = command.function.as_deref().unwrap_or_default();
            if functions::decides(function, &value) {
                return Ok(value);
            }
            values.push(value);
        }
        match &command.function {
            Some(function) => {
                values.extend(last);
                match functions::call(function, &values)? {
                    Value::String(text) if text.len() > MOST_BYTES => Err(format!(
                        "the result of {function} is longer than {MOST_BYTES} bytes"
                    )),
                    value => Ok(value),
                }
            }
            None if last.is_some() => Err("a value cannot take an argument from a pipeline".into()),
            None => values.pop().ok_or_else(|| "empty command".to_owned()),
        }
    }

    fn operand(&self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        match operand {
            Operand::Value(value) => Ok(value.clone()),
            Operand::Field(keys) => Ok(walk(dot, keys)?.clone()),
            Operand::Variable(name, keys) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                let (_, value) = found.ok_or_else(|| format!("undefined variable ${name}"))?;
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
            return Err(format!("cannot look up `{key}` in {}", shown(value)));
        };
        value = map.get(key).ok_or_else(|| {
            let known: Vec<&str> = map.keys().map(String::as_str).collect();
            format!("unknown key `{key}`; the keys are {}", known.join(", "))
        })?;
    }
    Ok(value)
}
