//! Finds the programs: in the folder that `KUBEBUILDER_ASSETS` names, or in the cache of earlier
//! builds.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::program::Program;

/// Version of the programs of Kubernetes, unless `KUBEBUILDER_ASSETS` has an API server of another
/// one.
pub const KUBERNETES: &str = "1.36.4";
/// Version of etcd that is built.
pub const ETCD: &str = "3.6.8";
/// Version of kwok that is built.
pub const KWOK: &str = "0.8.0";

/// A program and where it is, or where it will be once it is built.
#[derive(Clone, Debug)]
pub struct Binary {
    pub program: Program,
    /// Without the leading `v`.
    pub version: String,
    /// Its file.
    pub path: PathBuf,
}

/// All programs, in the order of [`Program::ALL`].
#[derive(Clone, Debug)]
pub struct Binaries {
    all: Vec<Binary>,
}

impl Binaries {
    /// Looks in `KUBEBUILDER_ASSETS` first, then in the cache. Programs that are in neither have a
    /// path in the cache.
    pub fn find() -> Result<Self> {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS")
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from);
        if let Some(folder) = assets.as_deref()
            && !folder.is_dir()
        {
            bail!(
                "KUBEBUILDER_ASSETS names {}, which is no folder",
                folder.display()
            );
        }
        let given = |program: Program| {
            let path = assets.as_ref()?.join(program.name());
            path.is_file().then(|| path.canonicalize().unwrap_or(path))
        };
        // What is built must be of the API server's version: no controller manager may be newer
        // than it.
        let kubernetes = match given(Program::ApiServer) {
            Some(path) => said_version(&path)?,
            None => KUBERNETES.to_owned(),
        };
        let find = |program| {
            if let Some(path) = given(program) {
                return Ok(Binary {
                    program,
                    version: said_version(&path)?,
                    path,
                });
            }
            let (version, folder) = match program {
                Program::Etcd => (ETCD.to_owned(), format!("etcd-{ETCD}")),
                Program::Kwok => (KWOK.to_owned(), format!("kwok-{KWOK}")),
                _ => (kubernetes.clone(), kubernetes.clone()),
            };
            let path = built()?.join(folder).join(program.name());
            Ok(Binary {
                program,
                version,
                path,
            })
        };
        Ok(Self {
            all: Program::ALL.into_iter().map(find).collect::<Result<_>>()?,
        })
    }

    pub fn get(&self, program: Program) -> &Binary {
        &self.all[program as usize]
    }

    /// Those that have to be built.
    pub fn missing(&self) -> Vec<&Binary> {
        self.all
            .iter()
            .filter(|binary| !binary.path.is_file())
            .collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Binary> {
        self.all.iter()
    }
}

/// Where Longshore keeps what is costly to make and safe to lose.
pub fn cache() -> Result<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from)
    };
    let folder = set("LONGSHORE_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("longshore")))
        .or_else(|| Some(set("HOME")?.join(".cache/longshore")))
        .context("no folder for a cache: set LONGSHORE_CACHE")?;
    std::path::absolute(&folder).with_context(|| format!("no such path: {}", folder.display()))
}

/// Where built programs are, by version.
pub fn built() -> Result<PathBuf> {
    Ok(cache()?.join("control-plane"))
}

/// The version that a program says it is: the first thing that looks like one.
fn said_version(path: &Path) -> Result<String> {
    let args: &[&str] = if path.ends_with("kubectl") {
        &["version", "--client"]
    } else {
        &["--version"]
    };
    let out = Command::new(path)
        .args(args)
        .output()
        .with_context(|| format!("cannot run {}", path.display()))?;
    let said = String::from_utf8_lossy(&out.stdout);
    version_in(&said)
        .with_context(|| format!("{} does not say its version: {said}", path.display()))
}

fn version_in(said: &str) -> Option<String> {
    let word = |word: &&str| word.trim_start_matches('v').split('.').count() >= 3;
    let digit = |word: &&str| {
        word.trim_start_matches('v')
            .starts_with(|first: char| first.is_ascii_digit())
    };
    said.split_whitespace()
        .filter(word)
        .find(digit)
        .map(|word| word.trim_start_matches('v').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_say_their_version_in_several_ways() {
        let said = |text| version_in(text);
        assert_eq!(said("Kubernetes v1.36.4\n").as_deref(), Some("1.36.4"));
        assert_eq!(
            said("etcd Version: 3.6.8\nGit SHA: 1.2\nGo Version: go1.26.8\n").as_deref(),
            Some("3.6.8")
        );
        assert_eq!(
            said("Client Version: v1.36.4\nKustomize Version: v5.7.1\n").as_deref(),
            Some("1.36.4")
        );
        assert_eq!(said("no idea"), None);
    }

    #[test]
    fn programs_are_found_by_their_place_in_the_list() {
        for (at, program) in Program::ALL.into_iter().enumerate() {
            assert_eq!(program as usize, at);
        }
    }
}
