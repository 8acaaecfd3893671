//! Rules about an address in an `iptables` chain that all pods share.
//!
//! ```text
//! table ip orlop {
//!     set forwarded { type ipv4_addr; elements = { 10.88.0.7 comment "POD eth0 rules 12 13", … } }
//! }
//! ```
//!
//! The kernel removes a rule by its handle, which it returns when the rule is created. A table of our own stores the
//! handle, so that removal need not list the chain. If the note is missing or outdated (another program rewrote the
//! table), the chain is listed.

use std::io;
use std::net::IpAddr;

use super::nftables::{Change, NFT_MSG_NEWTABLE, commit};
use super::own_table::{Set, Type, is_missing, is_there, message};
use super::rule::{Family, Rule, Step, Table};
use crate::cidr::octets;
use crate::netlink::Socket;

/// The rules about one address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noted<'a> {
    pub(crate) table: Table,
    pub(crate) chain: &'a str,
    /// `CONTAINER INTERFACE`.
    pub(crate) owner: &'a str,
    pub(crate) address: IpAddr,
}

const SET: &str = "forwarded";
/// Separator between owner and handles.
const RULES: &str = " rules";

impl Noted<'_> {
    /// Adds rules at the chain's end, after the steps that create the chain. They replace those of an earlier owner,
    /// which a crash has left.
    pub(super) fn add(
        &self,
        socket: &mut Socket,
        frame: &[Step],
        rules: &[Rule],
    ) -> io::Result<()> {
        let stale = self.note(socket)?;
        let mut change = self.change(socket);
        for step in frame {
            change.plan(step)?;
        }
        if let Some(note) = &stale {
            self.remove_rules(&mut change, note)?;
        }
        for rule in rules {
            change.add_told_rule(self.chain, rule);
        }
        // This comes first: rules without a note are still found by a search.
        let handles = change.commit()?;
        if let Err(error) = self.take_note(socket, stale.is_some(), &handles) {
            tracing::debug!(
                %error,
                address = %self.address,
                "cannot record rules; the next removal searches for them"
            );
        }
        Ok(())
    }

    /// Removes the rules, unless they belong to another owner by now.
    pub(super) fn remove(&self, socket: &mut Socket) -> io::Result<()> {
        let note = self.note(socket)?;
        if note.as_ref().is_some_and(|note| !self.is_own(note)) {
            return Ok(());
        }
        let mut change = self.change(socket);
        self.remove_rules(&mut change, note.as_deref().unwrap_or_default())?;
        if note.is_some() {
            change.also(self.set().delete(&octets(self.address)));
        }
        change.commit().map(drop)
    }

    /// Reports whether a note of the owner's rules exists.
    pub(super) fn stands(&self, socket: &mut Socket) -> io::Result<bool> {
        Ok(self.note(socket)?.is_some_and(|note| self.is_own(&note)))
    }

    /// Returns the step that removes the rules without a note.
    pub(super) fn removal(&self) -> Step {
        Step::RemoveAbout {
            chain: self.chain.to_owned(),
            address: self.address,
        }
    }

    fn remove_rules(&self, change: &mut Change<'_>, note: &str) -> io::Result<()> {
        let about = octets(self.address);
        let handles: Vec<u64> = handles_in(note).collect();
        let mut found = Vec::new();
        for handle in &handles {
            let rule = change.rule(self.chain, *handle)?;
            found.extend(rule.filter(|rule| rule.compared.contains(&about)));
        }
        if handles.is_empty() || found.len() != handles.len() {
            found = change.find(self.chain)?;
            found.retain(|rule| rule.compared.contains(&about));
        }
        change.remove(self.chain, found.iter());
        Ok(())
    }

    fn take_note(&self, socket: &mut Socket, is_stale: bool, handles: &[u64]) -> io::Result<()> {
        let key = octets(self.address);
        let handles: Vec<_> = handles.iter().map(u64::to_string).collect();
        let text = format!("{}{RULES} {}", self.owner, handles.join(" "));
        let note = |socket: &mut Socket| {
            let stale = is_stale.then(|| self.set().delete(&key));
            let note = self.set().add(&text, [(&key[..], None)]);
            commit(socket, stale.into_iter().chain([note]).collect())
        };
        let noted = note(socket);
        if !is_missing(&noted) {
            return noted;
        }
        let family = Family::of(self.address);
        let made = commit(
            socket,
            vec![
                message(family, NFT_MSG_NEWTABLE, libc::NLM_F_CREATE),
                self.set()
                    .make(1, libc::NLM_F_EXCL, Type::address(family), None),
            ],
        );
        if !is_there(&made) {
            made?;
        }
        note(socket)
    }

    /// Reads the note of the address.
    fn note(&self, socket: &mut Socket) -> io::Result<Option<String>> {
        let comment = match self.set().owner_of(socket, &octets(self.address)) {
            // This kernel has no sets.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => None,
            comment => comment?,
        };
        // Strips the type, the length and the final NUL.
        let text = |comment: Vec<u8>| {
            let text = comment.get(2..).unwrap_or_default();
            String::from_utf8_lossy(text.strip_suffix(&[0]).unwrap_or(text)).into_owned()
        };
        Ok(comment.map(text))
    }

    fn is_own(&self, note: &str) -> bool {
        note.strip_prefix(self.owner)
            .is_some_and(|rest| rest.starts_with(RULES))
    }

    fn change<'s>(&self, socket: &'s mut Socket) -> Change<'s> {
        Change::new(socket, Family::of(self.address), self.table)
    }

    fn set(&self) -> Set<'static> {
        Set {
            family: Family::of(self.address),
            name: SET,
        }
    }
}

/// Parses the handles in a note.
fn handles_in(note: &str) -> impl Iterator<Item = u64> {
    let (_, handles) = note.rsplit_once(RULES).unwrap_or_default();
    handles
        .split_whitespace()
        .filter_map(|text| text.parse().ok())
}
