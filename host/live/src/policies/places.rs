//! Where files are: the folders on the way to them, and what `/proc/self/mountinfo` says.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// Symbolic links on the way to one file, as the kernel has it.
const MAX_LINKS: usize = 40;

/// The mounts that this process sees.
#[derive(Default)]
pub struct Mounts(Vec<Mount>);

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq)]
pub struct Mount {
    point: PathBuf,
    /// Which folder or file of its file system it shows.
    root: PathBuf,
    /// The kind of file system.
    pub kind: String,
}

impl Mounts {
    /// As they are now; none where the system does not say.
    pub fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Mounts::read(&text)
    }

    fn read(text: &str) -> Self {
        // 36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda rw
        let mount = |line: &str| {
            let (place, what) = line.split_once(" - ")?;
            let mut fields = place.split(' ').skip(3);
            Some(Mount {
                root: unescaped(fields.next()?),
                point: unescaped(fields.next()?),
                kind: what.split(' ').next()?.to_owned(),
            })
        };
        Mounts(text.lines().filter_map(mount).collect())
    }

    /// The mount that a path is on.
    pub fn of(&self, path: &Path) -> Option<&Mount> {
        let on = self.0.iter().filter(|mount| path.starts_with(&mount.point));
        // Of two on one point the later one hides the other.
        on.max_by_key(|mount| mount.point.iter().count())
    }

    /// Whether a file is one that never changes while this process lives: a part of a ConfigMap, a
    /// Secret or the like that is mounted with `subPath`. What the kubelet writes later is in
    /// another folder. Its folders have names that begin with two dots.
    pub fn is_fixed(&self, file: &Path) -> bool {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        self.of(&file).is_some_and(|mount| {
            let version = |part: &std::ffi::OsStr| {
                let name = part.to_string_lossy();
                name.len() > 2 && name.starts_with("..")
            };
            mount.root.iter().any(version)
        })
    }
}

impl Mount {
    /// Whether a change may come from elsewhere, without an event here.
    pub fn is_remote(&self) -> bool {
        let kind = self.kind.as_str();
        kind.starts_with("nfs")
            || kind.starts_with("fuse")
            || ["9p", "afs", "ceph", "cifs", "smb3", "virtiofs"].contains(&kind)
    }
}

/// The folder of each symbolic link on the way to a file, and the last folder that is there.
pub fn folders(file: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut at = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let parts = |path: &Path| -> VecDeque<_> { path.iter().map(PathBuf::from).collect() };
    let (mut left, mut links) = (parts(file), 0);
    while let Some(part) = left.pop_front() {
        let next = at.join(&part);
        if let Ok(link) = std::fs::read_link(&next) {
            links += 1;
            if links > MAX_LINKS {
                break;
            }
            found.insert(at.clone());
            let mut way = parts(&link);
            way.append(&mut left);
            left = way;
        } else if left.is_empty() || std::fs::symlink_metadata(&next).is_err() {
            break;
        } else if part == Path::new("..") {
            at.pop();
        } else {
            at = next;
        }
    }
    found.insert(at);
    found
}

/// Spaces and the like are written as `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part
            .get(..3)
            .and_then(|code| u8::from_str_radix(code, 8).ok())
        {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&part.as_bytes()[3..]);
            }
            None => {
                bytes.push(b'\\');
                bytes.extend_from_slice(part.as_bytes());
            }
        }
    }
    PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a container with a ConfigMap as a folder, one file of it with `subPath`, a Secret, one
    /// folder of a claim with `subPath`, and shares sees it.
    const TEXT: &str = "\
        1 0 0:50 / / rw - overlay overlay rw,lowerdir=/a\n\
        2 1 8:1 /var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/c /etc/config ro - ext4 /dev/sda1 rw\n\
        3 1 8:1 /var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/c/..2026_11_28_08_00_00.42/longshore.toml \
        /etc/longshore/longshore.toml ro - ext4 /dev/sda1 rw\n\
        4 1 0:61 / /etc/secret ro - tmpfs tmpfs rw\n\
        5 1 0:62 /..2026_11_28_08_00_00.42/dir /etc/part ro - tmpfs tmpfs rw\n\
        6 1 8:2 /claim/policies /policies rw - ext4 /dev/sdb rw\n\
        7 1 0:63 / /shared\\040policies rw master:1 - nfs4 server:/x rw\n\
        8 1 0:64 / /bucket rw - fuse.s3fs s3fs rw\n";

    #[test]
    fn a_part_of_a_config_map_never_changes_and_a_whole_one_does() {
        let mounts = Mounts::read(TEXT);
        let fixed = |file: &str| mounts.is_fixed(Path::new(file));
        assert!(fixed("/etc/longshore/longshore.toml"));
        assert!(fixed("/etc/part/a.wasm"));
        for file in [
            "/etc/config/longshore.toml",
            "/etc/secret/token",
            "/policies/a.wasm",
            "/etc/longshore/other.toml",
            "/else",
        ] {
            assert!(!fixed(file), "{file}");
        }
    }

    #[test]
    fn shares_are_told_from_disks_by_their_kind() {
        let mounts = Mounts::read(TEXT);
        let remote = |path: &str| mounts.of(Path::new(path)).is_some_and(Mount::is_remote);
        assert!(remote("/shared policies/a") && remote("/bucket/a/b"));
        assert!(!remote("/policies/a") && !remote("/") && !remote("/etc/config"));
        assert_eq!(
            Mounts::read("nonsense\n1 2 - \n\\").of(Path::new("/")),
            None
        );
        assert_eq!(unescaped("a\\134\\9"), Path::new("a\\\\9"));
    }
}
