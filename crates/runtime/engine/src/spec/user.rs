//! User and groups of a container's process.

use std::os::fd::BorrowedFd;

use orlop_cri_api::v1;
use orlop_oci_types::User;

use super::Error;
use super::user_files::{group_file, groups, passwd_file, users};
use super::userns::IdRanges;

const SECURITY: &str = "config.linux.security_context";

/// The largest id that runtimes accept.
const MAX_ID: u32 = i32::MAX as u32;

/// Limit of groups, as in the kernel (`NGROUPS_MAX`).
const MAX_GROUPS: usize = 65_536;

/// The requested user: the request's name or id, else the image's, else root.
#[derive(Debug)]
pub(super) struct Asked {
    wish: Wish,
    additional: Vec<u32>,
    policy: v1::SupplementalGroupsPolicy,
}

impl Asked {
    pub(super) fn read(
        security: &v1::LinuxContainerSecurityContext,
        image_user: &str,
    ) -> Result<Self, Error> {
        let policy = security.supplemental_groups_policy;
        let policy = v1::SupplementalGroupsPolicy::try_from(policy).map_err(|_| {
            let field = format!("{SECURITY}.supplemental_groups_policy");
            Error::invalid(field, format!("unknown policy {policy}"))
        })?;
        Ok(Self {
            wish: Wish::read(security, image_user)?,
            additional: supplemental(security)?,
            policy,
        })
    }

    /// Resolves names in the image's files.
    ///
    /// The primary group is among the supplementary ones, as after a login. Otherwise a process that drops it
    /// could access files that deny that group.
    pub(super) fn resolve(
        self,
        rootfs: BorrowedFd<'_>,
        ranges: Option<&IdRanges>,
    ) -> Result<User, Error> {
        let Self {
            wish,
            mut additional,
            policy,
        } = self;
        let account = Account::find(&wish, rootfs)?;
        let gid = match &wish.group {
            Some(group) => find_group(group, &wish.field, rootfs)?,
            None => account.gid,
        };
        if policy == v1::SupplementalGroupsPolicy::Merge
            && let Some(name) = &account.name
        {
            let file = group_file(rootfs, &wish.field)?;
            let member = groups(&file).filter(|group| {
                // On many systems a group with the user's name is the primary one.
                group.name != *name && group.has(name)
            });
            additional.extend(member.map(|group| group.gid));
        }
        additional.push(gid);
        additional.sort_unstable();
        additional.dedup();
        if additional.len() > MAX_GROUPS {
            let problem = format!("the user is in more than {MAX_GROUPS} groups");
            return Err(Error::invalid(&wish.field, problem));
        }
        let user = User {
            uid: account.uid,
            gid,
            umask: None,
            additional_gids: additional,
        };
        if let Some(ranges) = ranges {
            check_mapped(&user, ranges, &wish.field)?;
        }
        Ok(user)
    }
}

/// Refuses ids that the pod's user namespace does not map.
fn check_mapped(user: &User, ranges: &IdRanges, field: &str) -> Result<(), Error> {
    let unmapped = (!ranges.has_uid(user.uid))
        .then_some(("user", user.uid))
        .or_else(|| {
            let mut groups = user.additional_gids.iter();
            let group = groups.find(|id| !ranges.has_gid(**id));
            group.map(|id| ("group", *id))
        });
    let Some((kind, id)) = unmapped else {
        return Ok(());
    };
    let problem = format!("{kind} ID {id} is outside of the pod's user namespace");
    Err(Error::invalid(field, problem))
}

/// Converts the user for the container's status.
pub(super) fn report(user: &User) -> v1::ContainerUser {
    v1::ContainerUser {
        linux: Some(v1::LinuxContainerUser {
            uid: user.uid.into(),
            gid: user.gid.into(),
            supplemental_groups: user.additional_gids.iter().map(|&id| id.into()).collect(),
        }),
    }
}

/// A user or group, by number or name.
#[derive(Debug, PartialEq, Eq)]
enum Who {
    Id(u32),
    Name(String),
}

#[derive(Debug)]
struct Wish {
    user: Who,
    group: Option<Who>,
    field: String,
}

impl Wish {
    fn read(security: &v1::LinuxContainerSecurityContext, image_user: &str) -> Result<Self, Error> {
        let named = !security.run_as_username.is_empty();
        let group = match &security.run_as_group {
            Some(_) if !named && security.run_as_user.is_none() => {
                let field = format!("{SECURITY}.run_as_group");
                return Err(Error::invalid(field, "is set, but run_as_user is not"));
            }
            Some(group) => Some(Who::Id(id(group.value, "run_as_group")?)),
            None => None,
        };
        if named {
            let field = format!("{SECURITY}.run_as_username");
            let user = parse(&security.run_as_username, &field)?;
            return Ok(Self { user, group, field });
        }
        if let Some(user) = &security.run_as_user {
            let user = Who::Id(id(user.value, "run_as_user")?);
            return Ok(Self {
                user,
                group,
                field: format!("{SECURITY}.run_as_user"),
            });
        }
        let field = "the image's USER".to_owned();
        if image_user.is_empty() {
            return Ok(Self {
                user: Who::Id(0),
                group: None,
                field,
            });
        }
        let (user, group) = match image_user.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (image_user, None),
        };
        let group = match group {
            None | Some("") => None,
            Some(group) => Some(parse(group, &field)?),
        };
        let user = if user.is_empty() {
            Who::Id(0)
        } else {
            parse(user, &field)?
        };
        Ok(Self { user, group, field })
    }
}

struct Account {
    uid: u32,
    gid: u32,
    name: Option<String>,
}

impl Account {
    fn find(wish: &Wish, rootfs: BorrowedFd<'_>) -> Result<Self, Error> {
        let file = passwd_file(rootfs, &wish.field)?;
        let mut known = users(&file);
        match &wish.user {
            Who::Id(uid) => {
                let entry = known.find(|entry| entry.uid == *uid);
                Ok(Self {
                    uid: *uid,
                    gid: entry.map_or(0, |entry| entry.gid),
                    name: entry.map(|entry| entry.name.to_owned()),
                })
            }
            Who::Name(name) => {
                let entry = known.find(|entry| entry.name == *name);
                match entry {
                    Some(entry) if entry.uid > MAX_ID || entry.gid > MAX_ID => Err(Error::invalid(
                        &wish.field,
                        format!("{name}: ID out of range"),
                    )),
                    Some(entry) => Ok(Self {
                        uid: entry.uid,
                        gid: entry.gid,
                        name: Some(entry.name.to_owned()),
                    }),
                    // Images made from scratch have no such file, and root needs none.
                    None if name == "root" => Ok(Self {
                        uid: 0,
                        gid: 0,
                        name: None,
                    }),
                    None => {
                        let problem = format!("the image has no user {name:?}");
                        Err(Error::invalid(&wish.field, problem))
                    }
                }
            }
        }
    }
}

fn find_group(group: &Who, field: &str, rootfs: BorrowedFd<'_>) -> Result<u32, Error> {
    match group {
        Who::Id(gid) => Ok(*gid),
        Who::Name(name) => {
            let file = group_file(rootfs, field)?;
            let entry = groups(&file).find(|entry| entry.name == *name);
            match entry {
                Some(entry) if entry.gid <= MAX_ID => Ok(entry.gid),
                Some(_) => Err(Error::invalid(field, format!("{name}: ID out of range"))),
                None if name == "root" => Ok(0),
                None => {
                    let problem = format!("the image has no group {name:?}");
                    Err(Error::invalid(field, problem))
                }
            }
        }
    }
}

fn supplemental(security: &v1::LinuxContainerSecurityContext) -> Result<Vec<u32>, Error> {
    security
        .supplemental_groups
        .iter()
        .map(|&group| id(group, "supplemental_groups"))
        .collect()
}

fn id(value: i64, field: &str) -> Result<u32, Error> {
    u32::try_from(value)
        .ok()
        .filter(|id| *id <= MAX_ID)
        .ok_or_else(|| {
            let problem = format!("{value} is not an ID between 0 and {MAX_ID}");
            Error::invalid(format!("{SECURITY}.{field}"), problem)
        })
}

fn parse(text: &str, field: &str) -> Result<Who, Error> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return match text.parse::<u32>() {
            Ok(id) if id <= MAX_ID => Ok(Who::Id(id)),
            _ => {
                let problem = format!("{text} is not an ID between 0 and {MAX_ID}");
                Err(Error::invalid(field, problem))
            }
        };
    }
    if text.contains([':', '\0', '\n']) {
        return Err(Error::invalid(
            field,
            format!("{text:?} is not a valid name"),
        ));
    }
    Ok(Who::Name(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd;

    use super::*;

    fn image() -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("etc")).unwrap();
        let passwd = "root:x:0:0:::\nuser:x:1000:1000:::\nweb:x:33:34:::\nhuge:x:4294967295:0:::\n";
        fs::write(dir.path().join("etc/passwd"), passwd).unwrap();
        let group = "root:x:0:root\nuser:x:1000:user\nextra:x:50000:user,web\nstaff:x:50:\nwheel:x:10:root\n";
        fs::write(dir.path().join("etc/group"), group).unwrap();
        let root = File::open(dir.path()).unwrap();
        (dir, root)
    }

    fn resolve(
        security: &v1::LinuxContainerSecurityContext,
        image_user: &str,
        rootfs: BorrowedFd<'_>,
        ranges: Option<&IdRanges>,
    ) -> Result<User, Error> {
        Asked::read(security, image_user)?.resolve(rootfs, ranges)
    }

    /// Resolves the image's user, without one in the request.
    fn of_image(image_user: &str, rootfs: BorrowedFd<'_>) -> Result<User, Error> {
        let security = v1::LinuxContainerSecurityContext::default();
        resolve(&security, image_user, rootfs, None)
    }

    fn ids(user: &User) -> (u32, u32, &[u32]) {
        (user.uid, user.gid, &user.additional_gids)
    }

    fn value(value: i64) -> Option<v1::Int64Value> {
        Some(v1::Int64Value { value })
    }

    #[test]
    fn every_form_of_the_images_user_is_understood() {
        let (_dir, root) = image();
        let security = v1::LinuxContainerSecurityContext::default();
        for (text, uid, gid, additional) in [
            ("", 0, 0, &[0, 10][..]),
            ("1000", 1000, 1000, &[1000, 50000]),
            ("user", 1000, 1000, &[1000, 50000]),
            ("4242", 4242, 0, &[0]),
            ("user:staff", 1000, 50, &[50, 50000]),
            ("1000:7", 1000, 7, &[7, 50000]),
            ("4242:staff", 4242, 50, &[50]),
            ("web:", 33, 34, &[34, 50000]),
            (":staff", 0, 50, &[10, 50]),
        ] {
            let user = resolve(&security, text, root.as_fd(), None).unwrap();
            assert_eq!(ids(&user), (uid, gid, additional), "USER {text:?}");
        }
        for bad in [
            "nobody",
            "user:nogroup",
            "-1",
            "4294967296",
            "huge",
            "a:b:c",
        ] {
            let error = resolve(&security, bad, root.as_fd(), None).unwrap_err();
            assert!(
                matches!(error, Error::InvalidArgument { .. }),
                "{bad}: {error}"
            );
            assert!(
                error.to_string().starts_with("the image's USER: "),
                "{error}"
            );
        }
    }

    /// CVE-2026-46680 and CVE-2024-40635: a number too large for an id was looked up as a name, which the image
    /// maps to root.
    #[test]
    fn a_number_too_large_is_no_name_of_the_images() {
        let (dir, root) = image();
        let numbers = [
            "4294967296",
            "2147483648",
            "99999999999999999999",
            "-1",
            "+4294967296",
        ];
        let lines = |rest: &str| {
            numbers
                .map(|number| format!("{number}:x:0:{rest}\n"))
                .concat()
        };
        fs::write(dir.path().join("etc/passwd"), lines("0:::")).unwrap();
        fs::write(dir.path().join("etc/group"), lines("")).unwrap();
        for number in numbers {
            for user in [number.to_owned(), format!("1000:{number}")] {
                let refused = of_image(&user, root.as_fd());
                let error = refused.unwrap_err().to_string();
                assert!(error.contains("is not an ID between"), "{user}: {error}");
            }
        }
    }

    /// CVE-2026-47262: parsed, the file takes many times its size.
    #[test]
    fn users_and_groups_without_end_take_no_memory() {
        let (dir, root) = image();
        let many = |line: &str| line.repeat((10 << 20) / line.len());
        fs::write(dir.path().join("etc/passwd"), many("a::1:1\n")).unwrap();
        fs::write(dir.path().join("etc/group"), many("a::1:\n")).unwrap();
        let members = format!("g:x:50:{}", &many("a,")[..(10 << 20) - 10]);
        let before = orlop_testkit::most_memory();
        for user in ["1:nobody", "nobody"] {
            of_image(user, root.as_fd()).unwrap_err();
        }
        fs::write(dir.path().join("etc/group"), members).unwrap();
        let user = of_image("1", root.as_fd()).unwrap();
        assert_eq!(ids(&user), (1, 1, &[1, 50][..]));
        let took = orlop_testkit::most_memory() - before;
        assert!(took < 64 << 20, "{took} bytes");
    }

    #[test]
    fn more_groups_than_a_process_can_have_are_refused() {
        let (dir, root) = image();
        let lines = |count: usize| {
            let lines: Vec<_> = (1..=count).map(|gid| format!("g:x:{gid}:user\n")).collect();
            lines.concat()
        };
        let file = dir.path().join("etc/group");
        fs::write(&file, lines(MAX_GROUPS)).unwrap();
        let user = of_image("user", root.as_fd()).unwrap();
        assert_eq!(user.additional_gids.len(), MAX_GROUPS);
        fs::write(&file, lines(MAX_GROUPS + 1)).unwrap();
        let refused = of_image("user", root.as_fd());
        let error = refused.map(drop).unwrap_err().to_string();
        assert!(error.contains("more than 65536 groups"), "{error}");
    }

    #[test]
    fn the_request_goes_before_the_image() {
        let (_dir, root) = image();
        let security = v1::LinuxContainerSecurityContext {
            run_as_user: value(33),
            run_as_group: value(5),
            supplemental_groups: vec![1234],
            ..Default::default()
        };
        let user = resolve(&security, "user", root.as_fd(), None).unwrap();
        assert_eq!(ids(&user), (33, 5, &[5, 1234, 50000][..]));
        let named = v1::LinuxContainerSecurityContext {
            run_as_username: "user".into(),
            ..Default::default()
        };
        let user = resolve(&named, "web", root.as_fd(), None).unwrap();
        assert_eq!(ids(&user), (1000, 1000, &[1000, 50000][..]));
    }

    #[test]
    fn a_strict_policy_leaves_out_the_images_groups() {
        let (_dir, root) = image();
        let security = v1::LinuxContainerSecurityContext {
            run_as_user: value(1000),
            supplemental_groups: vec![1234],
            supplemental_groups_policy: v1::SupplementalGroupsPolicy::Strict.into(),
            ..Default::default()
        };
        let user = resolve(&security, "", root.as_fd(), None).unwrap();
        assert_eq!(ids(&user), (1000, 1000, &[1000, 1234][..]));
        let linux = report(&user).linux.unwrap();
        assert_eq!(
            (linux.uid, linux.supplemental_groups),
            (1000, vec![1000, 1234])
        );
    }

    #[test]
    fn a_group_alone_and_ids_out_of_range_are_refused() {
        let (_dir, root) = image();
        let default = v1::LinuxContainerSecurityContext::default;
        for (bad, field) in [
            (
                v1::LinuxContainerSecurityContext {
                    run_as_group: value(5),
                    ..default()
                },
                "run_as_group",
            ),
            (
                v1::LinuxContainerSecurityContext {
                    run_as_user: value(-1),
                    ..default()
                },
                "run_as_user",
            ),
            (
                v1::LinuxContainerSecurityContext {
                    supplemental_groups: vec![1 << 40],
                    ..default()
                },
                "supplemental_groups",
            ),
            (
                v1::LinuxContainerSecurityContext {
                    supplemental_groups_policy: 7,
                    ..default()
                },
                "supplemental_groups_policy",
            ),
            (
                v1::LinuxContainerSecurityContext {
                    run_as_username: "ghost".into(),
                    ..default()
                },
                "run_as_username",
            ),
        ] {
            let error = resolve(&bad, "", root.as_fd(), None)
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with(&format!("{SECURITY}.{field}: ")),
                "{error}"
            );
        }
    }

    #[test]
    fn root_needs_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = File::open(dir.path()).unwrap();
        let security = v1::LinuxContainerSecurityContext::default();
        let user = resolve(&security, "root:root", root.as_fd(), None).unwrap();
        assert_eq!(ids(&user), (0, 0, &[0][..]));
    }

    #[test]
    fn ids_must_exist_in_the_user_namespace() {
        let (_dir, root) = image();
        let range = orlop_oci_types::IdMapping {
            container_id: 0,
            host_id: 100_000,
            size: 1001,
        };
        let ranges = IdRanges {
            uids: vec![range],
            gids: vec![range],
        };
        let security = v1::LinuxContainerSecurityContext::default();
        assert!(resolve(&security, "33:34", root.as_fd(), Some(&ranges)).is_err());
        assert!(resolve(&security, "0:0", root.as_fd(), Some(&ranges)).is_ok());
    }
}
