//! A profile, compiled for the kernel.

use std::os::fd::OwnedFd;

use orlop_oci_types::{Seccomp, SeccompAction};

use crate::fates::Named;
use crate::flag::Flag;
use crate::instruction::{Instruction, MAX_INSTRUCTIONS};
use crate::ranges::{self, Asked};
use crate::{Arch, Error, Unreadable, action, code, kernel, known};

/// A filter in the kernel's format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    instructions: Vec<Instruction>,
    flags: u32,
}

impl Program {
    /// Compiles a profile for processes of this machine.
    pub fn compile(profile: &Seccomp) -> Result<Self, Error> {
        let instructions = translate(profile, Arch::NATIVE)?;
        for rule in &profile.syscalls {
            check_action(rule.action)?;
        }
        check_action(profile.default_action)?;
        Ok(Self {
            instructions,
            flags: flags(profile)?,
        })
    }

    /// Names in a profile that no architecture has: their rules have no effect.
    pub fn unknown_names(profile: &Seccomp) -> Vec<&str> {
        let default = action::answer(profile.default_action, profile.default_errno_ret);
        Named::read(profile, default).map_or_else(|_| Vec::new(), |named| named.unknown)
    }

    /// Filters the calls of this thread and its future programs and children. Returns the listener, if an agent is
    /// notified. Allocates nothing and takes no lock, so that it can be called between a clone and an execve.
    pub fn install(&self) -> rustix::io::Result<Option<OwnedFd>> {
        kernel::install(&self.instructions, self.flags)
    }

    /// Returns whether an agent is notified of some calls.
    pub fn has_listener(&self) -> bool {
        self.flags & kernel::NEW_LISTENER != 0
    }

    /// Returns the flags for the kernel.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// Returns the instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Returns the program as bytes that [`Self::from_bytes`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + SIZE * self.instructions.len());
        bytes.extend(MAGIC);
        for word in [
            VERSION,
            Arch::NATIVE.audit(),
            self.flags,
            self.instructions.len() as u32,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0; 8]);
        for instruction in &self.instructions {
            bytes.extend(instruction.code.to_le_bytes());
            bytes.extend([instruction.jump_true, instruction.jump_false]);
            bytes.extend(instruction.operand.to_le_bytes());
        }
        let sum = checksum(&bytes);
        bytes[CHECKSUM..HEADER].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the output of [`Self::to_bytes`]. Truncated or changed bytes are refused, and so is a program that the
    /// kernel would refuse. The caller must know from which profile it was made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let word = |at: usize| {
            let four = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(four.try_into().ok()?))
        };
        let wanted = (Some(VERSION), Some(Arch::NATIVE.audit()));
        if !bytes.starts_with(&MAGIC) || (word(8), word(12)) != wanted {
            return Err(Unreadable::Foreign);
        }
        let (Some(flags), Some(length)) = (word(16), word(20)) else {
            return Err(Unreadable::Length);
        };
        let length = length as usize;
        if !(1..=MAX_INSTRUCTIONS).contains(&length) || bytes.len() != HEADER + SIZE * length {
            return Err(Unreadable::Length);
        }
        if checksum(bytes).to_le_bytes() != bytes[CHECKSUM..HEADER] {
            return Err(Unreadable::Checksum);
        }
        let instructions: Vec<Instruction> = (bytes[HEADER..].chunks_exact(SIZE))
            .map(|eight| Instruction {
                code: u16::from_le_bytes([eight[0], eight[1]]),
                jump_true: eight[2],
                jump_false: eight[3],
                operand: u32::from_le_bytes([eight[4], eight[5], eight[6], eight[7]]),
            })
            .collect();
        let mut places = instructions.iter().enumerate();
        match places.find(|(place, instruction)| !instruction.fits(*place, length)) {
            Some((place, _)) => Err(Unreadable::Instruction(place)),
            None => Ok(Self {
                instructions,
                flags,
            }),
        }
    }
}

/// The version of this compiler, which tells whether a cached filter is current.
pub const COMPILER: &str = env!("ORLOP_SECCOMP_COMPILER");

const MAGIC: [u8; 8] = *b"orlopbpf";
const VERSION: u32 = 1;
const SIZE: usize = size_of::<Instruction>();

/// Magic, four words, the checksum.
const CHECKSUM: usize = 8 + 4 * 4;
const HEADER: usize = CHECKSUM + 8;

/// Returns the FNV-1a hash of everything but the checksum itself: it detects accidental changes only.
fn checksum(bytes: &[u8]) -> u64 {
    let (before, after) = (&bytes[..CHECKSUM], &bytes[HEADER..]);
    before
        .iter()
        .chain(after)
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// Returns the instructions for a machine with the architecture `native`.
pub(crate) fn translate(profile: &Seccomp, native: Arch) -> Result<Vec<Instruction>, Error> {
    if profile.default_action == SeccompAction::Notify {
        return Err(Error::NotifyByDefault);
    }
    let default = action::answer(profile.default_action, profile.default_errno_ret);
    let named = Named::read(profile, default)?;
    let mut machines: Vec<(u32, Vec<_>)> = Vec::new();
    for arch in architectures(profile, native)? {
        let fates = named.on(arch)?;
        match machines
            .iter_mut()
            .find(|(audit, _)| *audit == arch.audit())
        {
            Some((_, same)) => same.push(fates),
            None => machines.push((arch.audit(), vec![fates])),
        }
    }
    let mut asked = Asked::default();
    let machines: Vec<_> = machines
        .into_iter()
        .map(|(audit, fates)| (audit, ranges::of_machine(fates, default, &mut asked)))
        .collect();
    let instructions = code::program(&machines, &asked, default);
    if instructions.len() > MAX_INSTRUCTIONS {
        return Err(Error::TooLong(instructions.len()));
    }
    Ok(instructions)
}

/// Returns the architectures of a profile, the native one first: it is checked first, and always filtered.
fn architectures(profile: &Seccomp, native: Arch) -> Result<Vec<Arch>, Error> {
    let mut all = vec![native];
    for name in &profile.architectures {
        let arch = Arch::by_name(name).ok_or_else(|| Error::UnknownArchitecture(name.clone()))?;
        if arch.is_little_endian() != native.is_little_endian() {
            return Err(Error::ForeignByteOrder(arch.name()));
        }
        if !all.contains(&arch) {
            all.push(arch);
        }
    }
    Ok(all)
}

/// Checks that the kernel supports an action which is newer than filters themselves.
fn check_action(action: SeccompAction) -> Result<(), Error> {
    let younger = matches!(
        action,
        SeccompAction::KillProcess | SeccompAction::Log | SeccompAction::Notify
    );
    if younger && !kernel::has_action(action::answer(action, None) & action::ACTION) {
        return Err(Error::UnsupportedAction(known::action_name(action)));
    }
    Ok(())
}

/// Returns the flags for the kernel. A profile without a flags list, not even an empty one, has runc's default.
fn flags(profile: &Seccomp) -> Result<u32, Error> {
    let mut flags = 0;
    match &profile.flags {
        None if Flag::SpecAllow.is_supported() => flags |= Flag::SpecAllow.bits(),
        None => {}
        Some(names) => {
            for name in names {
                let flag = (Flag::ALL.into_iter())
                    .find(|flag| flag.name() == name)
                    .ok_or_else(|| Error::UnknownFlag(name.clone()))?;
                if !flag.is_supported() {
                    return Err(Error::UnsupportedFlag(flag.name()));
                }
                flags |= flag.bits();
            }
        }
    }
    let mut rules = profile.syscalls.iter();
    if rules.any(|rule| rule.action == SeccompAction::Notify && !rule.names.is_empty()) {
        flags |= kernel::NEW_LISTENER;
    } else {
        // The kernel refuses it without a listener.
        flags &= !Flag::WaitKillable.bits();
    }
    Ok(flags)
}
