//! Parser for the part of nextest's filter language in `.config/nextest.toml`: `all()`, `none()`, `package(=x)`,
//! `binary(=x)`, `test(=x)`, `test(/regex/)`, `not`, `&`, `|` and parentheses.

use regex_lite::Regex;

use super::programs::Test;

/// A parsed filter.
#[derive(Debug)]
pub struct Filter {
    root: Node,
    /// Texts of its terms, by number.
    terms: Vec<String>,
}

#[derive(Debug)]
enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    Constant(bool),
    Term(usize, Term),
}

#[derive(Debug)]
enum Term {
    Package(String),
    Binary(String),
    Name(String),
    Pattern(Regex),
}

impl Filter {
    pub fn read(text: &str) -> Result<Self, String> {
        let mut reader = Reader {
            rest: text.trim_start(),
            terms: Vec::new(),
        };
        let root = reader.any()?;
        if !reader.rest.is_empty() {
            return Err(reader.outside("the end, `&` or `|`"));
        }
        Ok(Self {
            root,
            terms: reader.terms,
        })
    }

    pub fn selects(&self, test: &Test) -> bool {
        self.root.holds(test, None)
    }

    /// Returns the terms that can be removed without a change of the selection.
    pub fn idle_terms(&self, tests: &[Test]) -> Vec<&str> {
        let counts = |at: usize| {
            tests
                .iter()
                .any(|test| self.selects(test) != self.root.holds(test, Some(at)))
        };
        let terms = self.terms.iter().enumerate();
        let idle = terms.filter(|(at, _)| !counts(*at));
        idle.map(|(_, term)| term.as_str()).collect()
    }
}

impl Node {
    /// Evaluates the filter for a test, treating one term as false.
    fn holds(&self, test: &Test, without: Option<usize>) -> bool {
        match self {
            Self::Any(nodes) => nodes.iter().any(|node| node.holds(test, without)),
            Self::All(nodes) => nodes.iter().all(|node| node.holds(test, without)),
            Self::Not(node) => !node.holds(test, without),
            Self::Constant(value) => *value,
            Self::Term(at, _) if without == Some(*at) => false,
            Self::Term(_, term) => match term {
                Term::Package(name) => test.package == *name,
                Term::Binary(name) => test.binary == *name,
                Term::Name(name) => test.path == *name,
                Term::Pattern(regex) => regex.is_match(&test.path),
            },
        }
    }
}

struct Reader<'t> {
    rest: &'t str,
    terms: Vec<String>,
}

impl Reader<'_> {
    fn any(&mut self) -> Result<Node, String> {
        let mut nodes = vec![self.all()?];
        while self.took("|") {
            nodes.push(self.all()?);
        }
        Ok(Node::Any(nodes))
    }

    fn all(&mut self) -> Result<Node, String> {
        let mut nodes = vec![self.one()?];
        while self.took("&") {
            nodes.push(self.one()?);
        }
        Ok(Node::All(nodes))
    }

    fn one(&mut self) -> Result<Node, String> {
        if self.took("not ") {
            return Ok(Node::Not(Box::new(self.one()?)));
        }
        if self.took("(") {
            let inside = self.any()?;
            if self.took(")") {
                return Ok(inside);
            }
            return Err(self.outside("`)`"));
        }
        if self.took("all()") {
            return Ok(Node::Constant(true));
        }
        if self.took("none()") {
            return Ok(Node::Constant(false));
        }
        self.term()
    }

    fn term(&mut self) -> Result<Node, String> {
        let begin = self.rest;
        let term = if self.took("package(=") {
            Term::Package(self.until(")")?)
        } else if self.took("binary(=") {
            Term::Binary(self.until(")")?)
        } else if self.took("test(=") {
            Term::Name(self.until(")")?)
        } else if self.took("test(/") {
            let text = self.until("/)")?;
            let regex = Regex::new(&text).map_err(|error| format!("test(/{text}/): {error}"))?;
            Term::Pattern(regex)
        } else {
            let forms = "`all()`, `none()`, `package(=x)`, `binary(=x)`, `test(=x)`, `test(/x/)`, `not` or `(`";
            return Err(self.outside(forms));
        };
        let text = &begin[..begin.len() - self.rest.len()];
        self.terms.push(text.trim_end().to_owned());
        Ok(Node::Term(self.terms.len() - 1, term))
    }

    /// Consumes the expected text and the space after it, if it is next.
    fn took(&mut self, expected: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(expected) else {
            return false;
        };
        self.rest = rest.trim_start();
        true
    }

    fn until(&mut self, end: &str) -> Result<String, String> {
        let (text, rest) = self.rest.split_once(end).ok_or_else(|| self.outside(end))?;
        self.rest = rest.trim_start();
        Ok(text.to_owned())
    }

    fn outside(&self, expected: &str) -> String {
        let rest: String = self.rest.chars().take(40).collect();
        format!("`{rest}…`: the filters of this workspace have {expected} here")
    }
}

#[test]
fn filters_select_as_they_say() {
    let tests = super::names::sample();
    for (filter, count) in [
        ("all()", 10),
        ("none()", 0),
        ("package(=orlop) & binary(=cri) & test(/^pods::/)", 2),
        (
            "binary(=cri) & (test(/^(pods|shims)::/) | test(=clocks::a_clock_is_set))",
            4,
        ),
        ("binary(=cri) & not (test(/^pods::/) | test(/clock/))", 1),
        ("not binary(=cri) & package(=orlop) | test(/stopped/)", 3),
        ("binary(=orlop-run)", 1),
    ] {
        let read = Filter::read(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
        let selected = tests.iter().filter(|test| read.selects(test));
        assert_eq!(selected.count(), count, "{filter}");
        assert_eq!(read.idle_terms(&tests), Vec::<&str>::new(), "{filter}");
    }
}

#[test]
fn a_term_that_changes_nothing_is_idle() {
    let tests = super::names::sample();
    for (filter, idle) in [
        (
            "binary(=cri) & (test(/^pods::/) | test(/^volumes::/))",
            "test(/^volumes::/)",
        ),
        // There are such tests, but in another program.
        (
            "binary(=cri) & (test(/^pods::/) | test(/^log::/))",
            "test(/^log::/)",
        ),
        (
            "binary(=cri) & not test(=pods::a_pod_was_renamed)",
            "test(=pods::a_pod_was_renamed)",
        ),
        (
            "binary(=docker) | package(=orlop-absent)",
            "package(=orlop-absent)",
        ),
    ] {
        let read = Filter::read(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
        assert_eq!(read.idle_terms(&tests), [idle], "{filter}");
    }
}

#[test]
fn a_filter_in_other_words_is_an_error_that_says_so() {
    for filter in [
        "",
        "test(pods)",
        "test(~pods)",
        "test(#pods::*)",
        "package(orlop)",
        "kind(lib)",
        "all() - test(=x)",
        "all() and test(=x)",
        "(all()",
        "all() all()",
        "test(=x",
    ] {
        let error = Filter::read(filter).expect_err(filter);
        assert!(
            error.contains("the filters of this workspace have"),
            "{filter}: {error}"
        );
    }
    let error = Filter::read("test(/(/)").expect_err("a broken regex");
    assert!(error.starts_with("test(/(/):"), "{error}");
}
