//! Builds a layer's image, without the content of its files, from its table of contents.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use orlop_erofs::{Attributes, Image, Options, Timestamp, Xattrs};
use orlop_lazy::{IMAGE, PART, Parts};
use orlop_toc::{Damaged, Index, Kind, Node, ROOT};

use super::layer::read;
use super::plan::Plan;
use crate::limits::Limits;
use crate::store::Inherited;
use crate::unpack::{OPAQUE, options};
use crate::{Error, Result};

/// A layer as its table of contents describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Described {
    /// Total size of its files in bytes.
    pub(crate) bytes: u64,
    /// Directories that take their attributes from the layers below.
    pub(crate) implicit: Vec<Vec<u8>>,
}

/// Reads a whole table of contents and checks it against the limits.
pub(crate) fn describe(what: &str, index: &Index<Vec<u8>>, limits: &Limits) -> Result<Described> {
    let mut described = Described::default();
    let mut seen = vec![false; index.nodes() as usize + 1];
    let mut entries = 0;
    walk(index, |path, node| {
        entries += 1;
        if node.implicit && !path.is_empty() {
            described.implicit.push(path.join(&b'/'));
        }
        if node.kind == Kind::File
            && let Some(seen) = seen.get_mut(node.number as usize)
            && !std::mem::replace(seen, true)
        {
            described.bytes = described.bytes.saturating_add(node.size);
        }
        Ok(())
    })
    .map_err(|error| unbuilt(what, error))?;
    if entries > limits.layer_entries {
        let files = format!("{} files", limits.layer_entries);
        return Err(Error::too_large(
            format!("the number of files of {what}"),
            files,
        ));
    }
    if described.bytes > limits.layer_bytes {
        let limit = format!("{} bytes", limits.layer_bytes);
        return Err(Error::too_large(format!("the unpacked {what}"), limit));
    }
    Ok(described)
}

/// Builds the image of a lazy layer, without file content, in the directory that holds its table of contents. Returns
/// the number of bytes of the image. Blocks.
pub(crate) fn build(what: &str, looks: &[Inherited], dir: &Path, limits: &Limits) -> Result<u64> {
    let failed = |error| Error::at("writing", dir, error);
    let index = &Index::open(read(dir)?).map_err(|error| unbuilt(what, error.into()))?;
    let plan = Plan::of(index).map_err(|error| unbuilt(what, error.into()))?;
    let plan = plan.map_err(|error| Error::too_large(format!("{what}: {error}"), "16 TiB"))?;
    let file = File::create_new(dir.join(IMAGE)).map_err(failed)?;
    let built = write(index, &plan, looks, file, options(limits));
    let bytes = built.map_err(|error| unbuilt(what, error))?;
    let parts = Parts::adopt(dir).map_err(failed)?;
    let room = plan.room();
    parts
        .mark(0..room.start)
        .and_then(|()| parts.mark(room.end..bytes))
        .and_then(|()| parts.sync())
        .map_err(failed)?;
    Ok(bytes)
}

/// The reason why no image is built.
enum Unbuilt {
    Toc(Damaged),
    Image(orlop_erofs::Error),
    Other(Error),
}

impl From<Damaged> for Unbuilt {
    fn from(error: Damaged) -> Self {
        Self::Toc(error)
    }
}

impl From<orlop_erofs::Error> for Unbuilt {
    fn from(error: orlop_erofs::Error) -> Self {
        Self::Image(error)
    }
}

fn unbuilt(what: &str, error: Unbuilt) -> Error {
    match error {
        Unbuilt::Toc(error) => Error::invalid(what, error),
        Unbuilt::Image(orlop_erofs::Error::Write(error)) => {
            Error::io(format!("writing the EROFS image of {what}"), error)
        }
        Unbuilt::Image(error) => Error::invalid(what, error),
        Unbuilt::Other(error) => error,
    }
}

fn write(
    index: &Index<Vec<u8>>,
    plan: &Plan,
    looks: &[Inherited],
    file: File,
    options: Options,
) -> Result<u64, Unbuilt> {
    let mut image = Image::create(file, options)?;
    let room = image.set_aside(plan.bytes(), PART)?;
    if room != plan.room() {
        return Err(orlop_erofs::Error::ImageSize.into());
    }
    let places: HashMap<u32, u64> = plan.places().collect();
    // The first path of each inode that has several names.
    let mut names: HashMap<u32, Vec<Vec<u8>>> = HashMap::new();
    walk(index, |path, node| {
        if node.links > 1 && node.kind != Kind::Directory {
            if let Some(first) = names.get(&node.number) {
                let first: Vec<&[u8]> = first.iter().map(Vec::as_slice).collect();
                return Ok(image.link(&first, path)?);
            }
            let path = path.iter().map(|name| name.to_vec()).collect();
            names.insert(node.number, path);
        }
        let look = look(index, node)?;
        match node.kind {
            Kind::File => {
                let place = places.get(&node.number).copied().unwrap_or(room.start);
                image.placed(path, &look, node.size, place)?;
            }
            Kind::Directory => image.directory(path, look)?,
            Kind::Symlink => image.symlink(path, &look, index.target(node)?)?,
            Kind::Character => {
                image.device(path, &look, orlop_erofs::Kind::Character, node.device)?;
            }
            Kind::Block => image.device(path, &look, orlop_erofs::Kind::Block, node.device)?,
            Kind::Fifo => image.fifo(path, &look)?,
            Kind::Whiteout => {
                let nobody = Attributes::default();
                image.device(path, &nobody, orlop_erofs::Kind::Character, (0, 0))?;
            }
        }
        Ok(())
    })?;
    for look in looks {
        look.apply_to_image(&mut image).map_err(Unbuilt::Other)?;
    }
    Ok(image.finish()?.bytes)
}

/// Visits all nodes with their paths, directories before their content.
fn walk(
    index: &Index<Vec<u8>>,
    mut visit: impl FnMut(&[&[u8]], &Node) -> Result<(), Unbuilt>,
) -> Result<(), Unbuilt> {
    let root = index.node(ROOT)?.ok_or(Damaged)?;
    visit(&[], &root)?;
    // The directories on the current path, with the number of entries visited in each.
    let mut way = vec![(root, 0_u32)];
    let mut path: Vec<&[u8]> = Vec::new();
    while let Some((directory, at)) = way.last_mut() {
        let Some(named) = index.list(directory, *at).next().transpose()? else {
            way.pop();
            path.pop();
            continue;
        };
        *at += 1;
        let node = index.node(named.node)?.ok_or(Damaged)?;
        path.push(named.name);
        visit(&path, &node)?;
        if node.kind == Kind::Directory {
            way.push((node, 0));
        } else {
            path.pop();
        }
    }
    Ok(())
}

/// Converts the attributes of a node to those of the image.
fn look(index: &Index<Vec<u8>>, node: &Node) -> Result<Attributes, Damaged> {
    let mut xattrs = Xattrs::new();
    for xattr in index.xattrs(node)? {
        let xattr = xattr?;
        let is_fit = match node.kind {
            Kind::File | Kind::Directory => true,
            // Links and special files cannot have `user.` attributes.
            _ => !xattr.name.starts_with(b"user."),
        };
        if is_fit && orlop_erofs::is_xattr_name(xattr.name) {
            xattrs.insert(xattr.name.to_vec(), xattr.value.to_vec());
        }
    }
    if node.opaque {
        xattrs.insert(OPAQUE.to_vec(), b"y".to_vec());
    }
    Ok(Attributes {
        mode: match node.kind {
            Kind::Symlink => 0o777,
            _ => node.permissions,
        },
        uid: node.uid,
        gid: node.gid,
        mtime: Timestamp {
            seconds: node.mtime.seconds,
            nanoseconds: node.mtime.nanoseconds,
        },
        xattrs,
    })
}
