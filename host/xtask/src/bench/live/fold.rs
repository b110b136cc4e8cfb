//! The time until a controller has listed a large cluster, and its memory afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::controller::{Bench, Controller};
use super::listing::Listing;
use super::load::Mixes;
use crate::commands::table;

/// Longest wait.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// 10 000 nodes with 100 000 pods, from the first byte of a list to readiness; ours alone.
pub fn fold(bench: &Bench, mixes: &Mixes) -> anyhow::Result<String> {
    let cluster = mixes.large()?;
    let list: Value =
        serde_json::from_slice(&std::fs::read(&cluster)?).context("a large cluster")?;
    let listing = Listing::serve(&list)?;
    drop(list);
    let server = format!("http://{}", listing.address);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    });
    let file = crate::commands::target().join("bench/listing.kubeconfig");
    std::fs::write(&file, config.to_string())?;
    // It gets no Lease here: this server takes no orders, so there is nothing to do but know.
    let mut controller = Controller::start_at(&bench.kinds[0], &file, &bench.types, false)?;
    let begun = Instant::now();
    while !controller.is_ready() {
        controller.usage()?;
        if begun.elapsed() > MAX_WAIT {
            bail!(
                "not ready within {} s; its log is {}",
                MAX_WAIT.as_secs(),
                controller.log.display()
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let seconds = listing
        .first_byte()
        .context("nothing was listed")?
        .elapsed()
        .as_secs_f64();
    let folded = controller.usage()?;
    std::thread::sleep(Duration::from_secs(10));
    let later = controller.usage()?;
    let row = [
        format!("{seconds:.2}"),
        format!("{:.1}", folded.cpu),
        format!("{:.0}", folded.memory),
        format!("{:.0}", later.most),
        format!("{:.1}", 10.0 * (later.cpu - folded.cpu)),
    ];
    Ok(table(
        &["SECONDS", "CPU S", "MIB", "MIB AT MOST", "CPU % AFTERWARDS"],
        &[row.to_vec()],
    ))
}
