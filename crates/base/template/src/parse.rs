//! Parses words to a tree.

use serde_json::{Number, Value};

use crate::functions;
use crate::lex::{Piece, Word};

/// A node of a template.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Text(String),
    /// Prints a value, unless it sets variables.
    Print(Pipeline),
    If(Pipeline, Vec<Node>, Vec<Node>),
    With(Pipeline, Vec<Node>, Vec<Node>),
    Range(Pipeline, Vec<Node>, Vec<Node>),
    /// Leaves the innermost `range`.
    Break,
    /// Continues with its next value.
    Continue,
}

/// Commands, each with the result of the previous one as argument, and the variables for the final result.
#[derive(Debug, Clone)]
pub(crate) struct Pipeline {
    pub(crate) variables: Vec<String>,
    /// Whether the variables exist already.
    pub(crate) assign: bool,
    pub(crate) commands: Vec<Command>,
}

/// A function with arguments, or one operand.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) function: Option<String>,
    pub(crate) operands: Vec<Operand>,
}

#[derive(Debug, Clone)]
pub(crate) enum Operand {
    Field(Vec<String>),
    Variable(String, Vec<String>),
    Value(Value),
    Nested(Pipeline, Vec<String>),
}

pub(crate) fn nodes(pieces: &[Piece]) -> Result<Vec<Node>, String> {
    let mut parser = Parser {
        pieces,
        at: 0,
        depth: 0,
        ranges: 0,
    };
    let (nodes, end) = parser.until_end()?;
    match end {
        None => Ok(nodes),
        Some(End { keyword, .. }) => Err(format!("unexpected {keyword}")),
    }
}

/// Limit of nesting, because the parser is recursive.
const DEEPEST: usize = 100;

struct Parser<'a> {
    pieces: &'a [Piece],
    at: usize,
    depth: usize,
    /// The number of enclosing `range` blocks.
    ranges: usize,
}

/// `end` or `else`, with the words after an `else`.
struct End<'a> {
    keyword: &'static str,
    rest: &'a [Word],
}

impl<'a> Parser<'a> {
    fn until_end(&mut self) -> Result<(Vec<Node>, Option<End<'a>>), String> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.get(self.at) {
            self.at += 1;
            let words = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text.clone()));
                    continue;
                }
                Piece::Action(words) => words.as_slice(),
            };
            let keyword = match words.first() {
                Some(Word::Name(name)) => name.as_str(),
                _ => "",
            };
            match keyword {
                "end" => {
                    return Ok((
                        nodes,
                        Some(End {
                            keyword: "end",
                            rest: &[],
                        }),
                    ));
                }
                "else" => {
                    return Ok((
                        nodes,
                        Some(End {
                            keyword: "else",
                            rest: &words[1..],
                        }),
                    ));
                }
                "if" | "with" | "range" => nodes.push(self.branch(keyword, &words[1..])?),
                "break" | "continue" if self.ranges == 0 => {
                    return Err(format!("{keyword} is only allowed inside range"));
                }
                "break" if words.len() == 1 => nodes.push(Node::Break),
                "continue" if words.len() == 1 => nodes.push(Node::Continue),
                "define" | "template" | "block" => {
                    return Err(format!("{keyword} is not supported"));
                }
                _ => nodes.push(Node::Print(pipeline(words)?)),
            }
        }
        Ok((nodes, None))
    }

    fn branch(&mut self, keyword: &str, words: &[Word]) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("the template is nested too deeply".into());
        }
        let condition = pipeline(words)?;
        let is_range = usize::from(keyword == "range");
        self.ranges += is_range;
        let (then, end) = self.until_end()?;
        self.ranges -= is_range;
        let otherwise = match end {
            None => return Err(format!("{keyword} has no matching end")),
            Some(End { keyword: "end", .. }) => Vec::new(),
            Some(End { rest: [], .. }) => match self.until_end()? {
                (otherwise, Some(End { keyword: "end", .. })) => otherwise,
                _ => return Err(format!("the else of {keyword} has no matching end")),
            },
            Some(End {
                rest: [Word::Name(next), rest @ ..],
                ..
            }) if next == "if" || next == "with" => {
                // `else if` shares the `end` of the outermost `if`.
                vec![self.branch(next, rest)?]
            }
            Some(_) => return Err("only if or with can follow else".into()),
        };
        self.depth -= 1;
        Ok(match keyword {
            "if" => Node::If(condition, then, otherwise),
            "with" => Node::With(condition, then, otherwise),
            _ => Node::Range(condition, then, otherwise),
        })
    }
}

fn pipeline(words: &[Word]) -> Result<Pipeline, String> {
    let mut variables = Vec::new();
    let mut assign = false;
    let mut rest = words;
    let declares = words
        .iter()
        .position(|word| matches!(word, Word::Declare | Word::Assign));
    if let Some(position) = declares {
        assign = words[position] == Word::Assign;
        for word in &words[..position] {
            match word {
                Word::Variable(name, keys) if keys.is_empty() => variables.push(name.clone()),
                Word::Comma => {}
                _ => return Err("only variables can be assigned".into()),
            }
        }
        if variables.len() > 2 {
            return Err("range can set at most two variables".into());
        }
        rest = &words[position + 1..];
    }
    let mut commands = Vec::new();
    let mut cursor = Cursor { words: rest, at: 0 };
    loop {
        commands.push(cursor.command(0)?);
        match cursor.next() {
            None => {
                return Ok(Pipeline {
                    variables,
                    assign,
                    commands,
                });
            }
            Some(Word::Pipe) => {}
            Some(word) => return Err(format!("unexpected {word:?}")),
        }
    }
}

struct Cursor<'a> {
    words: &'a [Word],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn next(&mut self) -> Option<&'a Word> {
        let word = self.words.get(self.at);
        self.at += 1;
        word
    }

    /// Parses a command up to `|`, `)` or the end.
    fn command(&mut self, depth: usize) -> Result<Command, String> {
        if depth > DEEPEST {
            return Err("the template is nested too deeply".into());
        }
        let mut command = Command {
            function: None,
            operands: Vec::new(),
        };
        let mut first = true;
        while let Some(word) = self.words.get(self.at) {
            let operand = match word {
                Word::Pipe | Word::Close(_) => break,
                Word::Field(keys) => Operand::Field(keys.clone()),
                Word::Variable(name, keys) => Operand::Variable(name.clone(), keys.clone()),
                Word::Text(text) => Operand::Value(Value::String(text.clone())),
                Word::Number(number) => Operand::Value(Value::Number(Number::clone(number))),
                Word::Name(name) => match name.as_str() {
                    "true" => Operand::Value(Value::Bool(true)),
                    "false" => Operand::Value(Value::Bool(false)),
                    "nil" => Operand::Value(Value::Null),
                    _ if first && functions::exists(name) => {
                        command.function = Some(name.clone());
                        first = false;
                        self.at += 1;
                        continue;
                    }
                    _ => return Err(format!("unknown function `{name}`")),
                },
                Word::Open => {
                    self.at += 1;
                    let (nested, keys) = self.nested(depth + 1)?;
                    command.operands.push(Operand::Nested(nested, keys));
                    first = false;
                    continue;
                }
                Word::Comma | Word::Declare | Word::Assign => {
                    return Err(format!("unexpected {word:?}"));
                }
            };
            command.operands.push(operand);
            first = false;
            self.at += 1;
        }
        match (&command.function, command.operands.len()) {
            (None, 0) => Err("empty command".into()),
            (None, 2..) => Err("a value cannot have arguments".into()),
            _ => Ok(command),
        }
    }

    fn nested(&mut self, depth: usize) -> Result<(Pipeline, Vec<String>), String> {
        let mut commands = Vec::new();
        loop {
            commands.push(self.command(depth)?);
            match self.next() {
                Some(Word::Pipe) => {}
                Some(Word::Close(keys)) => {
                    let nested = Pipeline {
                        variables: Vec::new(),
                        assign: false,
                        commands,
                    };
                    return Ok((nested, keys.clone()));
                }
                _ => return Err("unclosed parenthesis: ) is missing".into()),
            }
        }
    }
}
