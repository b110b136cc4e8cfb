//! Packages of Debian: which, where they come from, and which of their files are in the image.
//!
//! `apt-get` fetches them, which checks Debian's signatures; the lock checks their bytes. It works
//! in a folder of its own, so that it does not matter which suite the machine is of.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use longshore_xtask::cache;
use lzma_rust2::XzReader;
use sha2::{Digest as _, Sha256};

use super::tree::{Tree, USER};
use crate::commands::output;

const LOCK: &str = "deploy/image/debian.lock";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const MIRROR: &str = "http://deb.debian.org";
/// Of packages whose architecture is not `all`.
const ARCHITECTURE: &str = "amd64";

/// A package, with its bytes.
pub struct Package {
    pub name: String,
    pub version: String,
    /// `amd64` or `all`.
    pub architecture: String,
    /// Of the file.
    pub sha256: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug, PartialEq)]
struct Lock {
    suite: String,
    packages: Vec<Locked>,
}

#[derive(Clone, Debug, PartialEq)]
struct Locked {
    name: String,
    version: String,
    architecture: String,
    sha256: String,
}

impl Lock {
    fn parse(text: &str) -> Result<Self> {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (mut suite, mut packages) = (None, Vec::new());
        for line in lines {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["suite", name] => suite = Some(name.to_owned()),
                [name, version, architecture, sha256] => packages.push(Locked {
                    name: name.to_owned(),
                    version: version.to_owned(),
                    architecture: architecture.to_owned(),
                    sha256: sha256.to_owned(),
                }),
                _ => bail!(
                    "{LOCK}: {line:?} is neither `suite NAME` nor `NAME VERSION ARCHITECTURE SHA256`"
                ),
            }
        }
        let suite = suite.with_context(|| format!("{LOCK} names no suite"))?;
        Ok(Self { suite, packages })
    }

    fn text(&self, head: &str) -> String {
        let mut text = format!("{head}suite {}\n", self.suite);
        for package in &self.packages {
            let Locked {
                name,
                version,
                architecture,
                sha256,
            } = package;
            let _ = writeln!(text, "{name} {version} {architecture} {sha256}");
        }
        text
    }
}

fn lock_text() -> Result<String> {
    fs::read_to_string(longshore_xtask::guests::root().join(LOCK)).context(LOCK)
}

/// The locked packages, from the cache or from Debian.
pub fn packages() -> Result<Vec<Package>> {
    let lock = Lock::parse(&lock_text()?)?;
    let folder = cache()?.join("debian");
    let missing: Vec<String> = lock
        .packages
        .iter()
        .filter(|package| !file(&folder, &package.sha256).is_file())
        .map(|package| format!("{}={}", package.name, package.version))
        .collect();
    if !missing.is_empty() {
        for (_, bytes) in Apt::new(&lock.suite)?.download(&missing)? {
            keep(&folder, &bytes)?;
        }
    }
    let read = |locked: &Locked| {
        let path = file(&folder, &locked.sha256);
        let bytes = fs::read(&path).with_context(|| {
            format!(
                "{} {} of Debian's mirror has other bytes than {LOCK} says",
                locked.name, locked.version
            )
        })?;
        ensure!(
            sha256(&bytes) == locked.sha256,
            "{} was changed: remove it",
            path.display()
        );
        Ok(Package {
            name: locked.name.clone(),
            version: locked.version.clone(),
            architecture: locked.architecture.clone(),
            sha256: locked.sha256.clone(),
            bytes,
        })
    };
    lock.packages.iter().map(read).collect()
}

/// Locks the newest version of each package that is locked.
pub fn update() -> Result<()> {
    let text = lock_text()?;
    let mut lock = Lock::parse(&text)?;
    let names: Vec<String> = lock
        .packages
        .iter()
        .map(|package| package.name.clone())
        .collect();
    let folder = cache()?.join("debian");
    let mut packages = Vec::new();
    for (file, bytes) in Apt::new(&lock.suite)?.download(&names)? {
        let control = Deb::read(&bytes)
            .with_context(|| file.clone())?
            .control()?
            .control;
        let field = |name: &str| {
            field(&control, name).with_context(|| format!("{file}: its control file has no {name}"))
        };
        packages.push(Locked {
            name: field("Package")?,
            version: field("Version")?,
            architecture: field("Architecture")?,
            sha256: keep(&folder, &bytes)?,
        });
    }
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    lock.packages = packages;
    let head: String = text
        .split_inclusive('\n')
        .take_while(|line| line.starts_with('#'))
        .collect();
    fs::write(longshore_xtask::guests::root().join(LOCK), lock.text(&head)).context(LOCK)
}

/// Where a package of these bytes is kept.
fn file(folder: &Path, sha256: &str) -> PathBuf {
    folder.join(format!("{sha256}.deb"))
}

fn keep(folder: &Path, bytes: &[u8]) -> Result<String> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let sum = sha256(bytes);
    let path = file(folder, &sum);
    let fresh = path.with_extension(format!("{}", std::process::id()));
    fs::write(&fresh, bytes)?;
    fs::rename(&fresh, &path)?;
    Ok(sum)
}

/// The digest of bytes in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// `apt-get` with lists of a suite that is not the machine's.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(suite: &str) -> Result<Self> {
        ensure!(
            Path::new(KEYRING).is_file() && crate::commands::found("apt-get"),
            "packages of Debian are fetched by apt-get and checked with {KEYRING}: install apt and \
             debian-archive-keyring"
        );
        let folder = cache()?.join("apt").join(suite);
        for inside in ["state/lists/partial", "cache/archives/partial", "packages"] {
            fs::create_dir_all(folder.join(inside))
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let sources = format!(
            "deb [signed-by={KEYRING}] {MIRROR}/debian {suite} main\n\
             deb [signed-by={KEYRING}] {MIRROR}/debian-security {suite}-security main\n"
        );
        fs::write(folder.join("sources.list"), sources)?;
        Ok(Self { folder })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("apt-get");
        let at = |option: &str, path: &str| {
            let path = self.folder.join(path);
            format!("--option={option}={}", path.display())
        };
        command.arg("--quiet=2").args([
            at("Dir::State", "state"),
            at("Dir::Cache", "cache"),
            at("Dir::Etc::SourceList", "sources.list"),
        ]);
        for option in [
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            "Dir::State::status=/dev/null".to_owned(),
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            format!("APT::Architecture={ARCHITECTURE}"),
            format!("APT::Architectures={ARCHITECTURE}"),
        ] {
            command.arg(format!("--option={option}"));
        }
        command.args(args).current_dir(self.folder.join("packages"));
        command
    }

    /// Files of packages, each `NAME` or `NAME=VERSION`.
    fn download(&self, packages: &[String]) -> Result<Vec<(String, Vec<u8>)>> {
        println!("    fetching {} from {MIRROR}", packages.join(", "));
        output(self.command(&["update"]))?;
        let folder = self.folder.join("packages");
        fs::remove_dir_all(&folder)?;
        fs::create_dir_all(&folder)?;
        let mut args = vec!["download"];
        args.extend(packages.iter().map(String::as_str));
        output(self.command(&args)).with_context(|| {
            format!(
                "Debian's mirror keeps the newest version of a package alone: where one of {LOCK} \
                 is gone, `cargo xtask image --update-packages` locks its successor"
            )
        })?;
        let mut files = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.push((name.into_owned(), fs::read(&path)?));
        }
        files.sort();
        Ok(files)
    }
}

/// A package taken apart: two tars.
struct Deb {
    control: Vec<u8>,
    data: Vec<u8>,
}

/// What a package says of itself.
struct Control {
    control: String,
    md5sums: Vec<u8>,
}

impl Deb {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut archive = ar::Archive::new(bytes);
        let (mut control, mut data) = (None, None);
        while let Some(member) = archive.next_entry() {
            let mut member = member?;
            let name = String::from_utf8_lossy(member.header().identifier()).into_owned();
            let mut packed = Vec::new();
            member.read_to_end(&mut packed)?;
            match name.as_str() {
                "debian-binary" => {}
                "control.tar.xz" => control = Some(unxz(&packed)?),
                "data.tar.xz" => data = Some(unxz(&packed)?),
                other => bail!("a package has {other}, and only .tar.xz is understood"),
            }
        }
        Ok(Self {
            control: control.context("a package has no control.tar.xz")?,
            data: data.context("a package has no data.tar.xz")?,
        })
    }

    fn control(&self) -> Result<Control> {
        let (mut control, mut md5sums) = (None, Vec::new());
        for entry in tar::Archive::new(self.control.as_slice()).entries()? {
            let mut entry = entry?;
            let path = entry.path()?.to_string_lossy().into_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            match path.trim_start_matches("./") {
                "control" => control = Some(String::from_utf8(bytes)?),
                "md5sums" => md5sums = bytes,
                _ => {}
            }
        }
        Ok(Control {
            control: control.context("a package has no control file")?,
            md5sums,
        })
    }
}

fn unxz(packed: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    XzReader::new(packed, true).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn field(control: &str, name: &str) -> Option<String> {
    let line = control
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Whether a file of a package is left out: what is for people, but for licences, and what nothing
/// in the image calls.
fn left_out(path: &str) -> bool {
    let below = |folder: &str| path.strip_prefix(folder);
    if let Some(document) = below("usr/share/doc/") {
        return !document.ends_with("/copyright") && document.contains('/');
    }
    [
        "usr/share/man/",
        "usr/share/lintian/",
        "usr/share/bug/",
        "usr/share/locale/",
        "usr/sbin/",
        "etc/ca-certificates/",
        // Character sets of iconv, 8 MB.
        "usr/lib/x86_64-linux-gnu/gconv/",
    ]
    .iter()
    .any(|folder| below(folder).is_some())
}

/// The file system below the daemon.
pub fn tree(packages: &[Package]) -> Result<Tree> {
    let opened: Vec<(&Package, Deb)> = packages
        .iter()
        .map(|package| {
            Ok((
                package,
                Deb::read(&package.bytes).context(package.name.clone())?,
            ))
        })
        .collect::<Result<_>>()?;
    // As old as the youngest file of the packages: the layer changes with them alone.
    let mut time = 0;
    for (_, deb) in &opened {
        for entry in tar::Archive::new(deb.data.as_slice()).entries()? {
            time = time.max(entry?.header().mtime()?);
        }
    }
    let mut tree = Tree::at(i64::try_from(time)?);
    for (package, deb) in &opened {
        add(&mut tree, deb).with_context(|| package.name.clone())?;
        let Control { control, md5sums } = deb.control()?;
        // Where scanners look for packages in images that have no dpkg.
        let status = format!("var/lib/dpkg/status.d/{}", package.name);
        tree.file(&status, 0o644, control.into_bytes());
        tree.file(&format!("{status}.md5sums"), 0o644, md5sums);
    }
    certificates(&mut tree)?;
    for (path, text) in [
        (
            "etc/passwd",
            "root:x:0:0:root:/root:/sbin/nologin\n\
             nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n\
             nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n",
        ),
        (
            "etc/group",
            "root:x:0:\nnogroup:x:65534:\nnonroot:x:65532:\n",
        ),
        ("etc/nsswitch.conf", "hosts: files dns\n"),
        (
            "etc/os-release",
            "PRETTY_NAME=\"Longshore on Debian\"\nNAME=\"Debian GNU/Linux\"\nID=debian\n\
             VERSION_ID=\"12\"\nVERSION=\"12 (bookworm)\"\n",
        ),
    ] {
        tree.file(path, 0o644, text.as_bytes().to_vec());
    }
    tree.folder("tmp", 0o1777, 0);
    tree.folder("root", 0o700, 0);
    tree.folder("home/nonroot", 0o700, USER);
    Ok(tree)
}

fn add(tree: &mut Tree, deb: &Deb) -> Result<()> {
    for entry in tar::Archive::new(deb.data.as_slice()).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let path = path
            .trim_start_matches("./")
            .trim_end_matches('/')
            .to_owned();
        if path.is_empty() || left_out(&path) {
            continue;
        }
        let (mode, time) = (
            entry.header().mode()?,
            i64::try_from(entry.header().mtime()?)?,
        );
        let target = |entry: &tar::Entry<'_, &[u8]>| -> Result<String> {
            let to = entry.link_name()?.context("a link to nowhere")?;
            Ok(to.to_string_lossy().into_owned())
        };
        match entry.header().entry_type() {
            // Made where something is in it.
            tar::EntryType::Directory => {}
            tar::EntryType::Regular => {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                tree.file_of(&path, mode & 0o7777, time, bytes);
            }
            tar::EntryType::Symlink => {
                let to = target(&entry)?;
                tree.link(&path, time, &to);
            }
            tar::EntryType::Link => {
                let to = target(&entry)?;
                let bytes = tree
                    .bytes(to.trim_start_matches("./"))
                    .with_context(|| format!("{path} is a link to {to}, which is not there"))?
                    .to_vec();
                tree.file_of(&path, mode & 0o7777, time, bytes);
            }
            other => bail!("{path} is of type {other:?}"),
        }
    }
    Ok(())
}

/// What the scripts of ca-certificates make of its files: all of them in one.
fn certificates(tree: &mut Tree) -> Result<()> {
    let mut all = Vec::new();
    let paths: Vec<String> = tree
        .paths()
        .filter(|path| path.starts_with("usr/share/ca-certificates/") && path.ends_with(".crt"))
        .map(str::to_owned)
        .collect();
    for path in &paths {
        all.extend_from_slice(tree.bytes(path).context("a certificate that is no file")?);
        if all.last() != Some(&b'\n') {
            all.push(b'\n');
        }
    }
    ensure!(!paths.is_empty(), "ca-certificates has no certificates");
    tree.file("etc/ssl/certs/ca-certificates.crt", 0o644, all);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_read_and_written_as_it_is() {
        let text = lock_text().unwrap();
        let head: String = text
            .split_inclusive('\n')
            .take_while(|line| line.starts_with('#'))
            .collect();
        let lock = Lock::parse(&text).unwrap();
        assert_eq!(lock.text(&head), text);
        let names: Vec<_> = lock.packages.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            ["ca-certificates", "gcc-12-base", "libc6", "libgcc-s1"]
        );
    }

    #[test]
    fn a_line_of_the_lock_that_is_not_understood_is_named() {
        let error = Lock::parse("suite bookworm\nlibc6 2.36\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("\"libc6 2.36\""), "{error}");
        let error = Lock::parse("libc6 2.36 amd64 00\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("names no suite"), "{error}");
    }

    #[test]
    fn licences_stay_and_what_is_for_people_goes() {
        assert!(!left_out("usr/share/doc/libc6/copyright"));
        assert!(!left_out("usr/share/doc/libgcc-s1"));
        assert!(left_out("usr/share/doc/libc6/changelog.Debian.gz"));
        assert!(left_out("usr/sbin/update-ca-certificates"));
        assert!(!left_out("lib/x86_64-linux-gnu/libc.so.6"));
    }

    #[test]
    fn fields_of_a_control_file_are_found_by_their_whole_name() {
        let control = "Package: libc6\nVersion: 2.36-9\nMulti-Arch: same\nArchitecture: amd64\n";
        assert_eq!(field(control, "Version").as_deref(), Some("2.36-9"));
        assert_eq!(field(control, "Architecture").as_deref(), Some("amd64"));
        assert_eq!(field(control, "Arch"), None);
    }
}
