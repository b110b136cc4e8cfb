//! Reads manifests and says what is in them, how long that took and how much memory it needed.
//!
//! `cargo run --release -p longshore-api --example read -- cluster.json …`

#![allow(clippy::print_stdout)]

use std::time::Instant;

fn main() -> std::io::Result<()> {
    let mut reader = longshore_api::manifests::Reader::new();
    let (mut bytes, started) = (0, Instant::now());
    for path in std::env::args().skip(1) {
        let text = std::fs::read(&path)?;
        bytes += text.len();
        reader.read(&path, &text);
    }
    let (world, problems) = reader.finish();
    let seconds = started.elapsed().as_secs_f64();
    print!("{problems}");
    println!(
        "{:.1} MB in {seconds:.3} s: {} pods of {} shapes, {} nodes, {} claims, {} NodePools, {} strings",
        bytes as f64 / 1e6,
        world.pods.len(),
        world.shapes.len(),
        world.nodes.len(),
        world.claims.len(),
        world.pools.len(),
        world.names.len()
    );
    println!("ignored: {:?}", problems.ignored);
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        status
            .lines()
            .filter(|line| line.starts_with("VmHWM"))
            .for_each(|line| println!("{line}"));
    }
    Ok(())
}
