//! Direct changes of nf_tables over netlink.

use std::io;

use super::error::FilterError;
use super::expression;
use super::rule::{Family, Rule, Step, Table, Target};
use crate::cidr::octets;
use crate::netlink::{Attributes, Message, Socket};

// <linux/netfilter/nfnetlink.h>, <linux/netfilter/nf_tables.h>
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFNL_MSG_BATCH_BEGIN: u16 = 16;
const NFNL_MSG_BATCH_END: u16 = 17;
pub(super) const NFT_MSG_NEWTABLE: u16 = 0;
pub(super) const NFT_MSG_NEWCHAIN: u16 = 3;
pub(super) const NFT_MSG_GETCHAIN: u16 = 4;
pub(super) const NFT_MSG_DELCHAIN: u16 = 5;
pub(super) const NFT_MSG_NEWRULE: u16 = 6;
pub(super) const NFT_MSG_GETRULE: u16 = 7;
pub(super) const NFT_MSG_DELRULE: u16 = 8;
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_CHAIN_TABLE: u16 = 1;
pub(super) const NFTA_CHAIN_NAME: u16 = 3;
pub(super) const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_USE: u16 = 6;
pub(super) const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_RULE_TABLE: u16 = 1;
pub(super) const NFTA_RULE_CHAIN: u16 = 2;
pub(super) const NFTA_RULE_HANDLE: u16 = 3;
pub(super) const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_RULE_COMPAT: u16 = 5;
pub(super) const NFTA_RULE_USERDATA: u16 = 7;

/// The base chains, which the kernel calls, by table: name, hook, priority.
const BASE_CHAINS: [(Table, &str, u32, i32); 7] = [
    (Table::Nat, "PREROUTING", 0, -100),
    (Table::Nat, "INPUT", 1, 100),
    (Table::Nat, "OUTPUT", 3, -100),
    (Table::Nat, "POSTROUTING", 4, 100),
    (Table::Filter, "INPUT", 1, 0),
    (Table::Filter, "FORWARD", 2, 0),
    (Table::Filter, "OUTPUT", 3, 0),
];

/// A rule found in a chain: the parts needed to identify and remove it.
#[derive(Debug)]
pub(super) struct Found {
    handle: u64,
    jump: Option<String>,
    /// All values that the rule compares with a part of a packet.
    pub(super) compared: Vec<Vec<u8>>,
}

/// One read and one change of a table.
pub(super) struct Change<'a> {
    socket: &'a mut Socket,
    family: Family,
    table: &'a str,
    kind: Table,
    messages: Vec<Message>,
    base_chains: Vec<&'static str>,
}

pub(super) fn apply(
    socket: &mut Socket,
    family: Family,
    table: Table,
    steps: &[Step],
) -> Result<(), FilterError> {
    let mut change = Change::new(socket, family, table);
    for step in steps {
        change.plan(step).map_err(failed)?;
    }
    change.commit().map(drop).map_err(failed)
}

pub(super) fn chain_exists(
    socket: &mut Socket,
    family: Family,
    table: Table,
    chain: &str,
) -> Result<bool, FilterError> {
    chain_is_there(socket, family, table.name(), chain).map_err(failed)
}

impl<'a> Change<'a> {
    pub(super) fn new(socket: &'a mut Socket, family: Family, table: Table) -> Self {
        Self {
            socket,
            family,
            table: table.name(),
            kind: table,
            messages: Vec::new(),
            base_chains: Vec::new(),
        }
    }

    pub(super) fn plan(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::NewChain(chain) => self.make_chain(chain, libc::NLM_F_EXCL),
            Step::Chain(chain) => self.make_chain(chain, 0),
            Step::Append(chain, rule) => self.add_rule(chain, rule, false),
            Step::OnlyRule(chain, rule) => {
                if self.find(chain)?.is_empty() {
                    self.add_rule(chain, rule, false);
                }
            }
            Step::JumpOnce { chain, rule, first } => {
                let Target::Jump(target) = &rule.target else {
                    return Ok(());
                };
                let there = self.find(chain)?;
                if !there
                    .iter()
                    .any(|found| found.jump.as_deref() == Some(target))
                {
                    self.add_rule(chain, rule, *first);
                }
            }
            Step::Reach { chain, rule } => {
                let Target::Jump(target) = &rule.target else {
                    return Ok(());
                };
                let is_there = chain_is_there(self.socket, self.family, self.table, chain)?;
                if !is_there || !self.is_reached(target)? {
                    self.add_rule(chain, rule, true);
                }
            }
            Step::RemoveChain { chain, jumps_in } => {
                // A missing chain has no jumps to it; the search for jumps would read all rules.
                if !chain_is_there(self.socket, self.family, self.table, chain)? {
                    return Ok(());
                }
                for from in jumps_in {
                    let found = self.find(from)?;
                    self.remove(
                        from,
                        found.iter().filter(|f| f.jump.as_deref() == Some(chain)),
                    );
                }
                // First its rules (no handle means all of them), then the chain.
                self.push(NFT_MSG_DELRULE, 0, |m| m.attr_str(NFTA_RULE_CHAIN, chain));
                self.push(NFT_MSG_DELCHAIN, 0, |m| m.attr_str(NFTA_CHAIN_NAME, chain));
            }
            Step::RemoveAbout { chain, address } => {
                let bytes = octets(*address);
                let found = self.find(chain)?;
                self.remove(chain, found.iter().filter(|f| f.compared.contains(&bytes)));
            }
        }
        Ok(())
    }

    /// Commits the changes; returns the handles of the rules that were added with an echo.
    pub(super) fn commit(mut self) -> io::Result<Vec<u64>> {
        if self.messages.is_empty() {
            return Ok(Vec::new());
        }
        let mut batch = vec![(bound(NFNL_MSG_BATCH_BEGIN), false)];
        if !self.base_chains.is_empty()
            || self
                .messages
                .iter()
                .any(|m| m.kind() == message_type(NFT_MSG_NEWCHAIN))
        {
            let table = self
                .message(NFT_MSG_NEWTABLE, libc::NLM_F_CREATE)
                .attr_str(NFTA_TABLE_NAME, self.table);
            batch.push((table, false));
        }
        for name in std::mem::take(&mut self.base_chains) {
            batch.extend(self.base_chain(name).map(|message| (message, false)));
        }
        batch.extend(
            std::mem::take(&mut self.messages)
                .into_iter()
                .map(|m| (m, false)),
        );
        if let Some((_, acknowledge)) = batch.last_mut() {
            *acknowledge = true;
        }
        batch.push((bound(NFNL_MSG_BATCH_END), false));
        let told = self.socket.transact_told(batch)?;
        let rules = told
            .iter()
            .filter(|(kind, _)| *kind == message_type(NFT_MSG_NEWRULE));
        let handles = rules.filter_map(|(_, body)| handle_of(Attributes(body.get(4..)?)));
        Ok(handles.collect())
    }

    /// Adds a message about another table to the same transaction.
    pub(super) fn also(&mut self, message: Message) {
        self.messages.push(message);
    }

    fn make_chain(&mut self, chain: &str, flags: i32) {
        self.push(NFT_MSG_NEWCHAIN, libc::NLM_F_CREATE | flags, |message| {
            message.attr_str(NFTA_CHAIN_NAME, chain)
        });
    }

    fn add_rule(&mut self, chain: &str, rule: &Rule, first: bool) {
        let place = if first { 0 } else { libc::NLM_F_APPEND };
        self.add_rule_with(chain, rule, place);
    }

    /// Adds a rule at a chain's end and asks the kernel for its handle.
    pub(super) fn add_told_rule(&mut self, chain: &str, rule: &Rule) {
        self.add_rule_with(chain, rule, libc::NLM_F_APPEND | libc::NLM_F_ECHO);
    }

    fn add_rule_with(&mut self, chain: &str, rule: &Rule, flags: i32) {
        let base = BASE_CHAINS
            .iter()
            .find(|(table, name, ..)| *table == self.kind && *name == chain);
        if let Some((_, name, ..)) = base
            && !self.base_chains.contains(name)
        {
            self.base_chains.push(name);
        }
        let family = self.family;
        self.push(NFT_MSG_NEWRULE, libc::NLM_F_CREATE | flags, |message| {
            let message = message
                .attr_str(NFTA_RULE_CHAIN, chain)
                .nest(NFTA_RULE_EXPRESSIONS, |list| {
                    expression::encode(list, family, rule)
                });
            let message = match expression::comment_of(rule) {
                Some(comment) => message.attr(NFTA_RULE_USERDATA, &comment),
                None => message,
            };
            match expression::protocol_of(rule) {
                // x_tables extensions read the rule's protocol from here.
                Some(protocol) => message.nest(NFTA_RULE_COMPAT, |compat| {
                    compat
                        .attr_be32(1, u32::from(protocol.number()))
                        .attr_be32(2, 0)
                }),
                None => message,
            }
        });
    }

    pub(super) fn remove<'f>(&mut self, chain: &str, found: impl Iterator<Item = &'f Found>) {
        for rule in found {
            self.push(NFT_MSG_DELRULE, 0, |message| {
                message
                    .attr_str(NFTA_RULE_CHAIN, chain)
                    .attr_be64(NFTA_RULE_HANDLE, rule.handle)
            });
        }
    }

    /// Reports whether a chain exists and any rule jumps to it, by the kernel's use count.
    fn is_reached(&mut self, chain: &str) -> io::Result<bool> {
        let Some(told) = look_for_chain(self.socket, self.family, self.table, chain)? else {
            return Ok(false);
        };
        let uses = Attributes(told.get(4..).unwrap_or_default())
            .get(NFTA_CHAIN_USE)
            .and_then(|uses| uses.try_into().ok())
            .map_or(0, u32::from_be_bytes);
        Ok(uses as usize > self.find(chain)?.len())
    }

    /// Returns a rule of a chain, if it exists.
    pub(super) fn rule(&mut self, chain: &str, handle: u64) -> io::Result<Option<Found>> {
        let message = self
            .message(NFT_MSG_GETRULE, 0)
            .attr_str(NFTA_RULE_TABLE, self.table)
            .attr_str(NFTA_RULE_CHAIN, chain)
            .attr_be64(NFTA_RULE_HANDLE, handle);
        match self.socket.query(message) {
            Ok((_, body)) => Ok(Found::parse(&body, self.table, chain)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the rules of a chain; an empty list if the chain does not exist.
    pub(super) fn find(&mut self, chain: &str) -> io::Result<Vec<Found>> {
        let message = self
            .message(NFT_MSG_GETRULE, 0)
            .attr_str(NFTA_RULE_TABLE, self.table)
            .attr_str(NFTA_RULE_CHAIN, chain);
        match self.socket.dump(message) {
            Ok(replies) => Ok(replies
                .iter()
                .filter_map(|(_, body)| Found::parse(body, self.table, chain))
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn base_chain(&self, name: &str) -> Option<Message> {
        let (table, name, hook, priority) = BASE_CHAINS
            .iter()
            .find(|(table, n, ..)| *table == self.kind && *n == name)?;
        // No policy: a new chain accepts by default, and an existing chain keeps the administrator's policy.
        let message = self
            .message(NFT_MSG_NEWCHAIN, libc::NLM_F_CREATE)
            .attr_str(NFTA_CHAIN_TABLE, table.name())
            .attr_str(NFTA_CHAIN_NAME, name)
            .nest(NFTA_CHAIN_HOOK, |h| {
                h.attr_be32(1, *hook).attr_be32(2, *priority as u32)
            })
            .attr_str(NFTA_CHAIN_TYPE, table.name());
        Some(message)
    }

    fn push(&mut self, kind: u16, flags: i32, fill: impl FnOnce(Message) -> Message) {
        // The table is attribute 1 of chains and of rules alike.
        let message = self
            .message(kind, flags)
            .attr_str(NFTA_RULE_TABLE, self.table);
        self.messages.push(fill(message));
    }

    fn message(&self, kind: u16, flags: i32) -> Message {
        message(self.family, kind, flags)
    }
}

impl Found {
    fn parse(body: &[u8], table: &str, chain: &str) -> Option<Self> {
        let attributes = Attributes(body.get(4..)?);
        // Older kernels do not filter a dump by chain.
        if attributes.text(NFTA_RULE_TABLE)? != table || attributes.text(NFTA_RULE_CHAIN)? != chain
        {
            return None;
        }
        let mut found = Self {
            handle: handle_of(attributes)?,
            jump: None,
            compared: Vec::new(),
        };
        for (_, element) in attributes.inner(NFTA_RULE_EXPRESSIONS) {
            let element = Attributes(element);
            let data = element.inner(2);
            match element.text(1) {
                Some("immediate") => {
                    let target = data.inner(2).inner(2).text(2);
                    found.jump = found.jump.or_else(|| target.map(str::to_owned));
                }
                Some("cmp") => found
                    .compared
                    .extend(data.inner(3).get(1).map(<[u8]>::to_vec)),
                _ => {}
            }
        }
        Some(found)
    }
}

fn handle_of(rule: Attributes<'_>) -> Option<u64> {
    let handle = rule.get(NFTA_RULE_HANDLE)?.try_into().ok()?;
    Some(u64::from_be_bytes(handle))
}

fn chain_is_there(
    socket: &mut Socket,
    family: Family,
    table: &str,
    chain: &str,
) -> io::Result<bool> {
    Ok(look_for_chain(socket, family, table, chain)?.is_some())
}

/// Returns the kernel's description of a chain, if it exists.
fn look_for_chain(
    socket: &mut Socket,
    family: Family,
    table: &str,
    chain: &str,
) -> io::Result<Option<Vec<u8>>> {
    let message = message(family, NFT_MSG_GETCHAIN, 0)
        .attr_str(NFTA_CHAIN_TABLE, table)
        .attr_str(NFTA_CHAIN_NAME, chain);
    match socket.query(message) {
        Ok((_, body)) => Ok(Some(body)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a message with its `struct nfgenmsg`.
fn message(family: Family, kind: u16, flags: i32) -> Message {
    Message::new(message_type(kind), flags).fixed(&[family.number(), 0, 0, 0])
}

/// Commits changes: all or none.
pub(super) fn commit(socket: &mut Socket, changes: Vec<Message>) -> io::Result<()> {
    let Some(last) = changes.len().checked_sub(1) else {
        return Ok(());
    };
    let changes = changes.into_iter().enumerate();
    let mut batch = vec![(bound(NFNL_MSG_BATCH_BEGIN), false)];
    batch.extend(changes.map(|(index, change)| (change, index == last)));
    batch.push((bound(NFNL_MSG_BATCH_END), false));
    socket.transact(batch)
}

/// Creates the message that begins or ends a transaction.
fn bound(kind: u16) -> Message {
    let [high, low] = NFNL_SUBSYS_NFTABLES.to_be_bytes();
    Message::new(kind, 0).fixed(&[0, 0, high, low])
}

pub(super) fn message_type(kind: u16) -> u16 {
    NFNL_SUBSYS_NFTABLES << 8 | kind
}

/// Converts an error of the kernel.
pub(super) fn failed(error: io::Error) -> FilterError {
    match error.raw_os_error() {
        Some(libc::EEXIST) => FilterError::Exists,
        Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT) => {
            FilterError::Unsupported(format!("this kernel has no nf_tables: {error}"))
        }
        _ => FilterError::Failed(error.to_string()),
    }
}
