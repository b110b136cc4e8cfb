//! Puts the SDKs, the contract and the templates into the program, so that it needs no checkout.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.join("../..");
    let mut text = String::from("pub const FILES: &[(&str, &[u8])] = &[\n");
    for (name, folder) in [
        ("sdk", root.join("sdk")),
        ("wit", root.join("wit")),
        ("templates", here.join("templates")),
    ] {
        let mut files = Vec::new();
        walk(&folder, &mut files)?;
        files.sort();
        for file in files {
            let inside = file.strip_prefix(&folder).unwrap_or(&file);
            let inside = format!("{name}/{}", inside.display());
            let _ = writeln!(text, "    ({inside:?}, include_bytes!({file:?})),");
        }
    }
    text += "];\n";
    let out = PathBuf::from(std::env::var("OUT_DIR").unwrap_or_default());
    std::fs::write(out.join("files.rs"), text)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if ["target", "node_modules", "__pycache__"].contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            walk(&path, files)?;
        } else {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
    Ok(())
}
