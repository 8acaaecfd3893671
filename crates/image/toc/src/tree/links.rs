//! Hard links. Their targets may follow later, and may be links themselves.

use std::collections::HashMap;

use super::build::Tree;
use super::path::Path;
use crate::{Error, Kind, Problem, Result};

/// A hard link whose target is not in the tree yet.
pub(super) struct Link {
    name: Box<[u8]>,
    target: Box<[u8]>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Waiting,
    /// The link is being resolved, which detects loops.
    Entered,
    Resolved(u32),
}

impl Tree<'_> {
    /// Adds a hard link: at once if its target exists, otherwise at the end.
    pub(super) fn link(&mut self, path: &Path<'_>, target: &[u8], full: &[u8]) -> Result<()> {
        let bad = |problem| Error::entry(full, problem);
        let there = Path::parse(target, self.limits).map_err(bad)?;
        if let Some(node) = self.find(&there.0) {
            return self.linked(path, node, full);
        }
        self.texts.count(full.len() + target.len(), self.limits)?;
        self.links.push(Link {
            name: full.into(),
            target: target.into(),
            state: State::Waiting,
        });
        Ok(())
    }

    fn linked(&mut self, path: &Path<'_>, node: u32, full: &[u8]) -> Result<()> {
        let bad = |problem| Err(Error::entry(full, problem));
        match self.nodes[node as usize].kind {
            Kind::Directory => return bad(Problem::LinkToDirectory),
            Kind::Whiteout => return bad(Problem::LinkToNothing),
            _ => {}
        }
        let Some((name, directories)) = path.0.split_last() else {
            return bad(Problem::Conflict);
        };
        let directory = self.directory(directories, full)?;
        self.put_link(directory, name, node, full)
    }

    /// Resolves all pending links.
    pub(super) fn resolve_links(&mut self) -> Result<()> {
        let mut links = std::mem::take(&mut self.links);
        let limits = self.limits;
        // They were already parsed when they were added.
        let read = |text: &[u8]| -> Result<Vec<u8>> {
            let path = Path::parse(text, limits).map_err(|problem| Error::entry(text, problem))?;
            Ok(path.0.join(&b'/'))
        };
        let mut waiting = HashMap::new();
        for (at, link) in links.iter().enumerate() {
            // The later of two links with the same name wins.
            waiting.insert(read(&link.name)?, at);
        }
        let mut way = Vec::new();
        for start in 0..links.len() {
            let mut at = start;
            let node = loop {
                match links[at].state {
                    State::Resolved(node) => break node,
                    State::Entered => {
                        return Err(Error::entry(&links[start].name, Problem::LinkLoop));
                    }
                    State::Waiting => {}
                }
                links[at].state = State::Entered;
                way.push(at);
                let target = read(&links[at].target)?;
                if let Some(node) = self.find(&split(&target)) {
                    break node;
                }
                match waiting.get(&target) {
                    Some(next) => at = *next,
                    None => {
                        return Err(Error::entry(&links[start].name, Problem::LinkToNothing));
                    }
                }
            };
            for at in way.drain(..) {
                links[at].state = State::Resolved(node);
            }
        }
        for link in &links {
            if let State::Resolved(node) = link.state {
                let path = Path::parse(&link.name, limits);
                let path = path.map_err(|problem| Error::entry(&link.name, problem))?;
                self.linked(&path, node, &link.name)?;
            }
        }
        Ok(())
    }
}

fn split(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/').collect()
}
