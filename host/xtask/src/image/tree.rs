//! Files of a layer, and the tar that they make: sorted, with the owners, modes and times that are
//! written here, and nothing of the machine's.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// User and group of the daemon.
pub const USER: u64 = 65532;

/// A file, a folder or a link.
#[derive(Clone, Debug)]
struct Node {
    mode: u32,
    owner: u64,
    time: i64,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Folder,
    File(Vec<u8>),
    Link(String),
}

/// What a layer holds, by path without a leading `/`.
#[derive(Debug)]
pub struct Tree {
    nodes: BTreeMap<String, Node>,
    /// Of what has no time of its own, seconds since 1970.
    time: i64,
}

impl Tree {
    /// An empty one.
    pub fn at(time: i64) -> Self {
        Self {
            nodes: BTreeMap::new(),
            time,
        }
    }

    /// Adds a file that belongs to root, and the folders above it.
    pub fn file(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        self.file_of(path, mode, self.time, bytes);
    }

    /// The same with its own time.
    pub fn file_of(&mut self, path: &str, mode: u32, time: i64, bytes: Vec<u8>) {
        self.insert(path, mode, 0, time, Content::File(bytes));
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, time: i64, to: &str) {
        self.insert(path, 0o777, 0, time, Content::Link(to.to_owned()));
    }

    /// Adds a folder, with its mode and owner if it was there.
    pub fn folder(&mut self, path: &str, mode: u32, owner: u64) {
        self.insert(path, mode, owner, self.time, Content::Folder);
    }

    fn insert(&mut self, path: &str, mode: u32, owner: u64, time: i64, content: Content) {
        for (at, _) in path.match_indices('/') {
            let above = Node {
                mode: 0o755,
                owner: 0,
                time: self.time,
                content: Content::Folder,
            };
            self.nodes.entry(path[..at].to_owned()).or_insert(above);
        }
        let node = Node {
            mode,
            owner,
            time,
            content,
        };
        self.nodes.insert(path.to_owned(), node);
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: &str) -> Option<&[u8]> {
        match &self.nodes.get(path)?.content {
            Content::File(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Paths, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// The layer as tar.
    pub fn tar(&self) -> Result<Vec<u8>> {
        let mut tar = Builder::new(Vec::new());
        for (path, node) in &self.nodes {
            let mut header = Header::new_gnu();
            header.set_mode(node.mode);
            header.set_uid(node.owner);
            header.set_gid(node.owner);
            header.set_mtime(u64::try_from(node.time).unwrap_or(0));
            header.set_size(0);
            match &node.content {
                Content::Folder => {
                    header.set_entry_type(EntryType::Directory);
                    tar.append_data(&mut header, format!("{path}/"), std::io::empty())?;
                }
                Content::File(bytes) => {
                    header.set_entry_type(EntryType::Regular);
                    header.set_size(bytes.len() as u64);
                    tar.append_data(&mut header, path, bytes.as_slice())?;
                }
                Content::Link(to) => {
                    header.set_entry_type(EntryType::Symlink);
                    tar.append_link(&mut header, path, to)?;
                }
            }
        }
        Ok(tar.into_inner()?)
    }
}

/// Packs bytes; the header has no time and no name.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packer = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(Vec::new(), Compression::best());
    packer.write_all(bytes)?;
    Ok(packer.finish()?)
}

/// Seconds since 1970 as `2026-11-25T22:00:00Z`.
pub fn rfc3339(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days to a date, by eras of 400 years that begin in March (Howard Hinnant, chrono-compatible
    // low-level date algorithms).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_utc() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(rfc3339(1_795_643_999), "2026-11-25T21:59:59Z");
    }

    #[test]
    fn the_order_in_which_files_come_does_not_matter() {
        let tree = |order: [&str; 3]| {
            let mut tree = Tree::at(7);
            for path in order {
                tree.file(path, 0o644, path.as_bytes().to_vec());
            }
            tree.link("lib64/ld.so", 3, "/lib/ld.so");
            gzip(&tree.tar().unwrap()).unwrap()
        };
        let one = tree(["etc/passwd", "usr/bin/a", "b"]);
        assert_eq!(one, tree(["b", "usr/bin/a", "etc/passwd"]));
        assert_ne!(one, tree(["b", "usr/bin/a", "etc/group"]));
    }

    #[test]
    fn a_tar_has_what_was_written_and_the_folders_above_it() {
        let mut tree = Tree::at(7);
        tree.file("usr/local/bin/longshore", 0o755, b"program".to_vec());
        tree.folder("home/nonroot", 0o700, USER);
        let tar = tree.tar().unwrap();
        let mut listed = Vec::new();
        for entry in tar::Archive::new(tar.as_slice()).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            listed.push(format!(
                "{:o} {} {} {}",
                header.mode().unwrap(),
                header.uid().unwrap(),
                header.mtime().unwrap(),
                entry.path().unwrap().display()
            ));
        }
        let expected = [
            "755 0 7 home/",
            "700 65532 7 home/nonroot/",
            "755 0 7 usr/",
            "755 0 7 usr/local/",
            "755 0 7 usr/local/bin/",
            "755 0 7 usr/local/bin/longshore",
        ];
        assert_eq!(listed, expected);
    }
}
