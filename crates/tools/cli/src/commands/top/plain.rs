//! The view without a full screen: a table or JSON for each sample.

use std::io::Write;
use std::time::Duration;

use orlop_cri_api::images::ImageHere;
use serde_json::{Value, json};

use super::paint::{percent, speed};
use super::sample::Sampler;
use super::view::{Kind, Row, View};
use crate::families::here;
use crate::output::{self, Format, Table, short_bytes, short_id, stdout};

/// Takes `count` samples, or forever for zero. A rate needs two samples.
pub(super) async fn run(
    mut sampler: Sampler,
    view: &mut View,
    interval: Duration,
    count: u64,
    format: &Format,
) -> anyhow::Result<()> {
    sampler.look().await?;
    let mut done = 0;
    loop {
        tokio::time::sleep(interval).await;
        view.take(sampler.look().await?);
        let rows = view.rows();
        let mut out = stdout();
        if matches!(format, Format::Table) {
            if done > 0 {
                writeln!(out)?;
            }
            table(&rows).print(&mut out)?;
            if !view.node.images.is_empty() {
                writeln!(out)?;
                images(&view.node.images).print(&mut out)?;
            }
        } else {
            let rows: Vec<Value> = rows.iter().map(value).collect();
            let mut look = json!({ "rows": rows });
            if !view.node.images.is_empty() {
                look["images"] = view.node.images.iter().map(image).collect();
            }
            output::value(&mut out, &look, format)?;
        }
        out.flush()?;
        done += 1;
        if done == count {
            return Ok(());
        }
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        "ID",
        "POD",
        "CONTAINER",
        "CPU %",
        "MEM",
        "NET IN",
        "NET OUT",
        "IO READ",
        "IO WRITE",
    ]);
    for row in rows {
        let usage = &row.usage;
        table.row([
            short_id(&row.id).to_owned(),
            format!("{}/{}", row.namespace, row.pod),
            match row.kind {
                Kind::Pod => "(pod)".to_owned(),
                Kind::Container => row.container.clone(),
            },
            percent(usage.cpu),
            usage.memory.map_or_else(|| "-".to_owned(), short_bytes),
            speed(usage.received),
            speed(usage.sent),
            speed(usage.read),
            speed(usage.written),
        ]);
    }
    table
}

/// Builds the table of lazily pulled images.
fn images(images: &[ImageHere]) -> Table {
    let mut table = Table::new(["IMAGE", "HERE", "OF"]);
    for image in images {
        table.row([
            here::name(image).to_owned(),
            here::percent(image),
            short_bytes(image.size),
        ]);
    }
    table
}

fn image(image: &ImageHere) -> Value {
    json!({
        "id": image.id,
        "name": here::name(image),
        "hereBytes": image.bytes,
        "sizeBytes": image.size,
    })
}

fn value(row: &Row) -> Value {
    let usage = &row.usage;
    json!({
        "id": row.id,
        "kind": match row.kind {
            Kind::Pod => "pod",
            Kind::Container => "container",
        },
        "namespace": row.namespace,
        "pod": row.pod,
        "container": row.container,
        "cpuPercent": usage.cpu,
        "memoryBytes": usage.memory,
        "memoryLimitBytes": usage.memory_limit,
        "receivedBytesPerSecond": usage.received,
        "sentBytesPerSecond": usage.sent,
        "readBytesPerSecond": usage.read,
        "writtenBytesPerSecond": usage.written,
    })
}
