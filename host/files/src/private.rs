//! Files that no other user can read or change, in a folder that belongs to this user: compiled
//! policies, bundles, last answers and copies of configurations are kept in them.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The content of a file of this user's in a folder of this user's; nothing if it is not there.
///
/// # Errors
/// It cannot be read or trusted.
pub fn read(folder: &Path, path: &Path, most: u64) -> Result<Option<Vec<u8>>, String> {
    if !folder.exists() {
        return Ok(None);
    }
    own_folder(folder)?;
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(said(error)),
    };
    let is = file.metadata().map_err(said)?;
    if !is.is_file() || !is_own(&is) {
        return Err(format!("{} {}", path.display(), not_own(&is)));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(said)?;
    Ok(Some(bytes))
}

/// Puts a file in its place, whole or not at all. The folder is made if it is not there.
///
/// # Errors
/// It cannot be written, or the folder is not this user's.
pub fn write(folder: &Path, path: &Path, bytes: &[u8]) -> Result<(), String> {
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(said)?;
    own_folder(folder)?;
    static NTH: AtomicU64 = AtomicU64::new(0);
    let nth = NTH.fetch_add(1, Ordering::Relaxed);
    let part = folder.join(format!(".part.{}.{nth}", std::process::id()));
    let _ = std::fs::remove_file(&part);
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(&part);
    let written = made
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&part, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&part);
        said(error)
    })
}

fn own_folder(folder: &Path) -> Result<(), String> {
    let is = std::fs::symlink_metadata(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    match is.is_dir() && is_own(&is) {
        true => Ok(()),
        false => Err(format!("{} {}", folder.display(), not_own(&is))),
    }
}

/// Whether it belongs to this user, and no other can read or change it.
fn is_own(is: &Metadata) -> bool {
    is.uid() == rustix::process::geteuid().as_raw() && is.mode() & 0o077 == 0
}

fn not_own(is: &Metadata) -> String {
    format!(
        "belongs to user {} with mode {:o}: it must be this user's ({}) and closed to others",
        is.uid(),
        is.mode() & 0o7777,
        rustix::process::geteuid().as_raw()
    )
}
