//! `images`: lists images.

use std::collections::HashMap;
use std::io::{self, Write};
use std::str::FromStr;

use orlop_cri_api::client::ImageClient;
use orlop_cri_api::images::ImageHere;
use orlop_cri_api::v1::{Image, ImageFilter, ImageSpec, ListImagesResponse};
use regex_lite::Regex;

use crate::connect::{Dialect, Session};
use crate::families::here;
use crate::output::{self, Format, FormatFlags, Table, short_bytes, short_id, stdout};

const NONE: &str = "<none>";

/// Arguments of `images`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only the image of this name
    #[arg(value_name = "IMAGE")]
    name: Option<String>,

    #[command(flatten)]
    which: ImageFlags,

    #[command(flatten)]
    format: FormatFlags,

    /// Show more details of each image
    #[arg(short, long)]
    verbose: bool,

    /// Show only IDs
    #[arg(short, long)]
    quiet: bool,

    /// Show digests
    #[arg(long)]
    digests: bool,

    /// Show full IDs
    #[arg(long)]
    no_trunc: bool,

    /// Show whether the image is pinned
    #[arg(long)]
    pinned: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_table()?;
    let connection = session.quick_image_connection().await?;
    let images = args
        .which
        .list(&connection.images(), args.name.clone())
        .await?;
    let is_for_people = matches!(format, Format::Table) && !args.quiet;
    let missing = if is_for_people && session.dialect == Dialect::Orlop {
        here::ask(connection.orlop_images(), "").await
    } else {
        HashMap::new()
    };
    let answer = ListImagesResponse { images };
    let mut out = stdout();
    if !output::list(&mut out, &answer, &format)? {
        if args.quiet {
            for image in &answer.images {
                writeln!(out, "{}", image.id)?;
            }
        } else if args.verbose {
            for image in &answer.images {
                in_full(&mut out, image, missing.get(&image.id))?;
            }
        } else {
            table(&answer.images, &missing, &args).print(&mut out)?;
        }
    }
    Ok(out.flush()?)
}

/// Builds the table. The column with the local share is present only if an image is incomplete.
fn table(images: &[Image], missing: &HashMap<String, ImageHere>, args: &Args) -> Table {
    let is_any = images.iter().any(|image| missing.contains_key(&image.id));
    let mut heading = vec!["IMAGE", "TAG"];
    if args.digests {
        heading.push("DIGEST");
    }
    heading.extend(["IMAGE ID", "SIZE"]);
    if is_any {
        heading.push("HERE");
    }
    if args.pinned {
        heading.push("PINNED");
    }
    let mut table = Table::new(heading);
    let shown = |id: &str| {
        if args.no_trunc {
            id.to_owned()
        } else {
            short_id(id).to_owned()
        }
    };
    for image in images {
        let (name, digest) = digest(image);
        for (name, tag) in names(image, name) {
            let mut row = vec![name.to_owned(), tag.to_owned()];
            if args.digests {
                row.push(shown(digest));
            }
            row.extend([shown(&image.id), short_bytes(image.size)]);
            if is_any {
                let missing = missing.get(&image.id);
                row.push(missing.map_or_else(|| "100%".to_owned(), here::percent));
            }
            if args.pinned {
                row.push(image.pinned.to_string());
            }
            table.row(row);
        }
    }
    table
}

fn in_full(out: &mut impl Write, image: &Image, here: Option<&ImageHere>) -> io::Result<()> {
    writeln!(out, "ID: {}", image.id)?;
    for tag in &image.repo_tags {
        writeln!(out, "RepoTags: {tag}")?;
    }
    for digest in &image.repo_digests {
        writeln!(out, "RepoDigests: {digest}")?;
    }
    if image.size != 0 {
        writeln!(out, "Size: {}", image.size)?;
    }
    if let Some(here) = here {
        writeln!(out, "Here: {} of {}", here.bytes, here.size)?;
    }
    if let Some(uid) = &image.uid {
        writeln!(out, "Uid: {}", uid.value)?;
    }
    if !image.username.is_empty() {
        writeln!(out, "Username: {}", image.username)?;
    }
    if image.pinned {
        writeln!(out, "Pinned: true")?;
    }
    writeln!(out)
}

/// Returns the repository and digest of an image's first digest.
fn digest(image: &Image) -> (&str, &str) {
    let first = image.repo_digests.first();
    first
        .and_then(|first| first.split_once('@'))
        .unwrap_or((NONE, NONE))
}

/// Returns the repository and tag of each tag of an image; an image without tags has one row as well.
fn names<'a>(image: &'a Image, name: &'a str) -> Vec<(&'a str, &'a str)> {
    if image.repo_tags.is_empty() {
        return vec![(name, NONE)];
    }
    let tags = image
        .repo_tags
        .iter()
        .map(|tag| tag.rsplit_once(':').unwrap_or((tag, NONE)));
    tags.map(|(repository, tag)| (if repository == NONE { name } else { repository }, tag))
        .collect()
}

/// Filter flags for a list of images.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ImageFlags {
    /// Filter images: dangling=true|false, reference=REGEX, before=IMAGE, since=IMAGE
    #[arg(short, long, value_name = "CONDITION", value_delimiter = ',')]
    filter: Vec<Condition>,
}

/// A condition of the image filter. The CRI has no creation time: before and since use the order of the list.
#[derive(Debug, Clone)]
enum Condition {
    Dangling(bool),
    Reference(Regex),
    Before(String),
    Since(String),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some(("dangling", "true")) => Ok(Self::Dangling(true)),
            Some(("dangling", "false")) => Ok(Self::Dangling(false)),
            Some(("reference", pattern)) => Regex::new(pattern)
                .map(Self::Reference)
                .map_err(|error| format!("`{pattern}` is not a valid regular expression: {error}")),
            Some(("before", image)) => Ok(Self::Before(image.to_owned())),
            Some(("since", image)) => Ok(Self::Since(image.to_owned())),
            _ => Err(
                "write dangling=true|false, reference=REGEX, before=IMAGE or since=IMAGE".into(),
            ),
        }
    }
}

impl ImageFlags {
    /// Lists the images that match, by name.
    pub(super) async fn list(
        &self,
        client: &ImageClient,
        name: Option<String>,
    ) -> anyhow::Result<Vec<Image>> {
        let spec = ImageSpec {
            image: name.unwrap_or_default(),
            ..Default::default()
        };
        let mut images = client
            .list_images(Some(ImageFilter { image: Some(spec) }))
            .await?;
        images.sort_by(|a, b| key(a, b).cmp(key(b, a)));
        for condition in &self.filter {
            condition.apply(&mut images);
        }
        Ok(images)
    }
}

/// Returns the sort key of an image against another: the first of tag and digest that both have.
fn key<'a>(image: &'a Image, other: &Image) -> &'a str {
    match (image.repo_tags.first(), image.repo_digests.first()) {
        (Some(tag), _) if !other.repo_tags.is_empty() => tag,
        (_, Some(digest)) if !other.repo_digests.is_empty() => digest,
        _ => &image.id,
    }
}

impl Condition {
    fn apply(&self, images: &mut Vec<Image>) {
        match self {
            Self::Dangling(dangling) => {
                images.retain(|image| image.repo_tags.is_empty() == *dangling);
            }
            Self::Reference(pattern) => images.retain(|image| pattern.is_match(digest(image).0)),
            Self::Since(name) => {
                let end = images.iter().position(|image| is_named(image, name));
                images.truncate(end.unwrap_or(images.len()));
            }
            Self::Before(name) => {
                let begin = images.iter().rposition(|image| is_named(image, name));
                images.drain(..begin.map_or(0, |at| at + 1));
            }
        }
    }
}

fn is_named(image: &Image, name: &str) -> bool {
    if name.contains('@') {
        image
            .repo_digests
            .first()
            .is_some_and(|digest| digest.starts_with(name))
    } else if name.contains(':') {
        image.repo_tags.first().is_some_and(|tag| tag == name)
    } else {
        image.id.trim_start_matches("sha256:").starts_with(name)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_is_here_is_a_column_where_something_is_missing() {
        let images = [
            image("sha256:1", &["a:1"], &[]),
            image("sha256:2", &["b:1"], &[]),
        ];
        let text = |missing: &HashMap<String, ImageHere>| {
            let mut out = Vec::new();
            let args = Line::parse_from(["images"]).args;
            table(&images, missing, &args).print(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!text(&HashMap::new()).contains("HERE"));
        let here = ImageHere {
            bytes: 12,
            size: 100,
            ..ImageHere::default()
        };
        let other = HashMap::from([("sha256:3".to_owned(), here.clone())]);
        assert!(!text(&other).contains("HERE"));
        let text = text(&HashMap::from([("sha256:2".to_owned(), here)]));
        let last = |row: &str| row.split_whitespace().last().map(str::to_owned);
        let lasts: Vec<_> = text.lines().filter_map(last).collect();
        assert_eq!(lasts, ["HERE", "100%", "12%"], "{text}");
    }

    fn image(id: &str, tags: &[&str], digests: &[&str]) -> Image {
        Image {
            id: id.into(),
            repo_tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            repo_digests: digests.iter().map(|digest| (*digest).to_owned()).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn each_tag_has_a_row_and_an_untagged_image_too() {
        let tagged = image(
            "sha256:1",
            &["r.test:5000/a:1", "r.test:5000/a:2"],
            &["r.test:5000/a@sha256:d"],
        );
        assert_eq!(
            names(&tagged, digest(&tagged).0),
            [("r.test:5000/a", "1"), ("r.test:5000/a", "2")]
        );
        let untagged = image("sha256:2", &[], &["b@sha256:e"]);
        assert_eq!(names(&untagged, digest(&untagged).0), [("b", NONE)]);
        assert_eq!(digest(&image("sha256:3", &[], &[])), (NONE, NONE));
    }

    #[test]
    fn conditions_narrow_the_list() {
        let all = || {
            vec![
                image("sha256:1", &["a:1"], &["a@sha256:x"]),
                image("sha256:2", &["b:1"], &["b@sha256:y"]),
                image("sha256:3", &[], &["c@sha256:z"]),
            ]
        };
        let left = |condition: &str| {
            let mut images = all();
            condition.parse::<Condition>().unwrap().apply(&mut images);
            images
                .iter()
                .map(|image| image.id[7..].to_owned())
                .collect::<String>()
        };
        assert_eq!(left("dangling=true"), "3");
        assert_eq!(left("dangling=false"), "12");
        assert_eq!(left("reference=^[bc]$"), "23");
        assert_eq!(left("since=b:1"), "1");
        assert_eq!(left("before=b:1"), "3");
        assert!("size=1".parse::<Condition>().is_err());
        assert!("reference=(".parse::<Condition>().is_err());
    }
}
