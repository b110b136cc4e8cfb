//! `cargo xtask image`: the image that ships, as an OCI image layout, made without a container
//! daemon.
//!
//! It is put together as distroless images are: files of a few packages of Debian, and the daemon
//! on top. The same commit gives the same bytes: nothing asks the clock, lists are sorted, and the
//! packages are locked by their digest in `deploy/image/debian.lock`. The Rust toolchain is locked
//! as well; gcc, which compiles a few lines of C and links, is the machine's.

mod build;
mod debian;
mod elf;
mod layout;
mod sbom;
mod tree;
mod trial;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::commands::{output, table};
use layout::Layer;
use tree::Tree;
pub(crate) use tree::rfc3339;

/// Features of the binary in the image.
const FEATURES: [&str; 1] = ["aws"];
/// What the image may weigh: all of its layers unpacked.
const MOST_BYTES: u64 = 80_000_000;

const USAGE: &str = "\
cargo xtask image [--out DIR]            the image as an OCI image layout (target/image/longshore)
    --allow-dirty                        from files that are not committed, too
    --update-packages                    lock the newest packages of Debian first
    --program FILE                       with this program, instead of building it: for trials
    --try                                then install the charts on a real control plane and run the
                                         daemon from the unpacked image; needs root";

/// Where an image comes from.
pub struct Source {
    /// Hash of the commit, with `-dirty` if files differ from it.
    pub commit: String,
    /// When it was committed, seconds since 1970.
    pub time: i64,
    /// Of the workspace.
    pub version: String,
}

impl Source {
    /// The time as RFC 3339.
    fn date(&self) -> String {
        rfc3339(self.time)
    }
}

/// Runs the command.
pub fn run(args: &[&str]) -> Result<()> {
    let mut out = crate::commands::target().join("image").join("longshore");
    let (mut dirty, mut update, mut trial, mut given) = (false, false, false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--out" => out = PathBuf::from(args.next().context("--out needs a folder")?),
            "--allow-dirty" => dirty = true,
            "--update-packages" => update = true,
            "--program" => given = Some(args.next().context("--program needs a file")?),
            "--try" => trial = true,
            other => bail!("{other:?} is not understood\n{USAGE}"),
        }
    }
    if update {
        debian::update()?;
    }
    let source = source(dirty)?;
    let packages = debian::packages()?;
    let program = match given {
        Some(file) => std::fs::read(file).with_context(|| format!("cannot read {file}"))?,
        None => build::program()?,
    };
    let layers = layers(&source, &packages, &program)?;
    let written = layout::write(&out, &source, &layers, &sbom::document(&source, &packages)?)?;
    let rows: Vec<_> = layers.iter().map(row).collect();
    print!("{}", table(&["layer", "unpacked", "packed"], &rows));
    println!(
        "{} is {}:{}, image {}",
        out.display(),
        layout::NAME,
        source.version,
        written
    );
    let bytes: u64 = layers.iter().map(|layer| layer.unpacked).sum();
    if trial {
        trial::run(&out)?;
    }
    if bytes > MOST_BYTES {
        bail!("the image has {bytes} bytes unpacked, more than {MOST_BYTES}");
    }
    Ok(())
}

fn row(layer: &Layer) -> Vec<String> {
    let size = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    vec![
        layer.what.to_owned(),
        size(layer.unpacked),
        size(layer.blob.len() as u64),
    ]
}

/// What is committed.
fn source(allow_dirty: bool) -> Result<Source> {
    let git = |args: &[&str]| -> Result<String> {
        let mut command = Command::new("git");
        command
            .args(args)
            .current_dir(longshore_xtask::guests::root());
        Ok(String::from_utf8_lossy(&output(command)?).trim().to_owned())
    };
    let mut commit = git(&["rev-parse", "HEAD"])?;
    let differing = git(&["status", "--porcelain"])?;
    if !differing.is_empty() {
        if !allow_dirty {
            bail!(
                "an image is made of a commit, and these files differ from it: commit them, or \
                 add --allow-dirty\n{differing}"
            );
        }
        commit += "-dirty";
    }
    Ok(Source {
        commit,
        time: git(&["log", "-1", "--format=%ct"])?.parse()?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// The two layers: Debian's files, which change with their packages alone, and ours.
fn layers(source: &Source, packages: &[debian::Package], program: &[u8]) -> Result<Vec<Layer>> {
    let base = debian::tree(packages)?;
    elf::check(program, &base, packages)?;
    let mut ours = Tree::at(source.time);
    ours.file("usr/local/bin/longshore", 0o755, program.to_vec());
    let license =
        std::fs::read(longshore_xtask::guests::root().join("LICENSE")).context("LICENSE")?;
    ours.file("usr/share/doc/longshore/copyright", 0o644, license);
    let sbom = sbom::document(source, packages)?;
    ours.file("usr/share/doc/longshore/longshore.spdx.json", 0o644, sbom);
    Ok(vec![
        Layer::new("Debian", &base)?,
        Layer::new("longshore", &ours)?,
    ])
}
