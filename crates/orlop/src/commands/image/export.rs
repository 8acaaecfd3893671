//! `image export`: writes images as one archive.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use orlop_cri::images::{ArchiveFormat, ExportImagesRequest, ExportImagesResponse};
use tonic::Streaming;

use super::{Session, client, refused};

/// Which images, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The images, by name or id
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<String>,

    /// The file to write; `-` is the standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// The kind of archive
    #[arg(long, value_name = "FORMAT", default_value = "oci")]
    format: Format,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A tar of an OCI image layout
    Oci,
    /// What `docker save` writes
    Docker,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout && io::stdout().is_terminal() {
        bail!("the standard output is a terminal: name a file with --output");
    }
    let format = match args.format {
        Format::Oci => ArchiveFormat::Oci,
        Format::Docker => ArchiveFormat::Docker,
    };
    let request = ExportImagesRequest {
        images: args.images,
        format: format.into(),
    };
    let mut client = client(session).await?;
    let answer = client.export_images(request).await.map_err(refused);
    let chunks = answer.context("cannot export")?.into_inner();
    if to_stdout {
        return copy(chunks, io::stdout()).await;
    }
    let part = Part::beside(&args.output)?;
    copy(chunks, &part.file).await?;
    part.put(&args.output)
}

async fn copy(
    mut chunks: Streaming<ExportImagesResponse>,
    mut out: impl Write,
) -> anyhow::Result<()> {
    while let Some(message) = chunks
        .message()
        .await
        .map_err(refused)
        .context("cannot export")?
    {
        out.write_all(&message.chunk)
            .context("cannot write the archive")?;
    }
    out.flush().context("cannot write the archive")
}

/// An archive being written; half of one is never left.
struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    fn beside(output: &Path) -> anyhow::Result<Self> {
        let mut path = output.as_os_str().to_owned();
        path.push(".part");
        let path = PathBuf::from(path);
        let file = File::create(&path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path, file })
    }

    fn put(self, output: &Path) -> anyhow::Result<()> {
        fs::rename(&self.path, output)
            .with_context(|| format!("cannot put the archive at {}", output.display()))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Not there if it was put in its place.
        let _ = fs::remove_file(&self.path);
    }
}
