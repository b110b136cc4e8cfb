//! Whether the program can start in the image: its libraries are there, and of versions that have
//! what it asks for. A program that was linked on a machine with a newer C library does not start
//! with an older one.

use anyhow::{Context as _, Result, bail, ensure};
use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::FileHeader as _;

use super::debian::Package;
use super::tree::Tree;

/// What a program asks of the machine.
#[derive(Debug, Default, PartialEq)]
struct Needs {
    libraries: Vec<String>,
    /// The newest version of the C library that a symbol has: (2, 34) of `GLIBC_2.34`.
    glibc: (u32, u32),
}

/// An error names the library or the version that the image does not have.
pub fn check(program: &[u8], tree: &Tree, packages: &[Package]) -> Result<()> {
    let needs = needs(program).context("the program is no ELF file for 64 bits")?;
    for library in &needs.libraries {
        let found = tree
            .paths()
            .any(|path| path.rsplit('/').next() == Some(library.as_str()));
        ensure!(found, "the program needs {library}, and no package has it");
    }
    let libc = packages
        .iter()
        .find(|package| package.name == "libc6")
        .context("libc6 is not locked")?;
    let shipped = version(&libc.version).context("libc6 has no version")?;
    if needs.glibc > shipped {
        bail!(
            "the program needs glibc {}.{}, and the image has {}.{}: build it on a machine with \
             the image's suite of Debian or an older one",
            needs.glibc.0,
            needs.glibc.1,
            shipped.0,
            shipped.1
        );
    }
    Ok(())
}

fn needs(program: &[u8]) -> Result<Needs> {
    let header = FileHeader64::<Endianness>::parse(program)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, program)?;
    let mut needs = Needs::default();
    let dynamic = sections.dynamic_table(endian, program)?;
    for entry in dynamic.iter().filter(|entry| entry.tag == DT_NEEDED) {
        let name = dynamic.string(entry)?;
        needs
            .libraries
            .push(String::from_utf8_lossy(name).into_owned());
    }
    if let Some((mut files, link)) = sections.gnu_verneed(endian, program)? {
        let strings = sections.strings(endian, program, link)?;
        while let Some((_, mut versions)) = files.next()? {
            while let Some(one) = versions.next()? {
                let name = String::from_utf8_lossy(one.name(endian, strings)?).into_owned();
                let glibc = name.strip_prefix("GLIBC_").and_then(version);
                needs.glibc = needs.glibc.max(glibc.unwrap_or_default());
            }
        }
    }
    Ok(needs)
}

/// `2.36-9+deb12u14` → (2, 36).
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn libc(version: &str) -> Vec<Package> {
        vec![Package {
            name: "libc6".into(),
            version: version.into(),
            architecture: "amd64".into(),
            sha256: String::new(),
            bytes: Vec::new(),
        }]
    }

    #[test]
    fn a_program_starts_only_with_its_libraries_and_a_c_library_that_is_new_enough() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = needs(&own).unwrap();
        assert!(
            needs.libraries.contains(&"libc.so.6".to_owned()),
            "{needs:?}"
        );
        assert!(needs.glibc > (2, 0), "{needs:?}");
        let mut tree = Tree::at(0);
        let said = |tree: &Tree, version: &str| match check(&own, tree, &libc(version)) {
            Ok(()) => "starts".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(said(&tree, "99.0-1").contains("no package has it"));
        for library in &needs.libraries {
            tree.file(
                &format!("lib/x86_64-linux-gnu/{library}"),
                0o755,
                Vec::new(),
            );
        }
        assert_eq!(said(&tree, "99.0-1"), "starts");
        assert!(said(&tree, "2.1-1").contains("and the image has 2.1"));
    }

    #[test]
    fn versions_have_two_numbers() {
        assert_eq!(version("2.36-9+deb12u14"), Some((2, 36)));
        assert_eq!(version("2.2.5"), Some((2, 2)));
        assert_eq!(version("PRIVATE"), None);
    }
}
