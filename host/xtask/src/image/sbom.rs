//! The bill of materials, as SPDX 2.3 in JSON: crates that are in the program, and packages of
//! Debian.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::debian::Package;
use super::{FEATURES, Source};
use crate::commands::{cargo, output};

/// A crate in the program.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
    license: String,
    ours: bool,
}

pub fn document(source: &Source, packages: &[Package]) -> Result<Vec<u8>> {
    let document = spdx(source, packages, &crates()?);
    Ok(serde_json::to_vec_pretty(&document)?)
}

/// What is compiled into the program, with the features of the image: neither build scripts nor
/// macros.
fn crates() -> Result<BTreeSet<Crate>> {
    let mut tree = cargo(&["tree", "--locked", "--package", "longshore"]);
    tree.args(["--edges", "normal,no-proc-macro", "--prefix", "none"]);
    tree.args(["--target", "x86_64-unknown-linux-gnu"]);
    tree.args(["--features", &FEATURES.join(",")]);
    tree.args(["--format", "{p}\t{l}"]);
    let said = String::from_utf8(output(tree)?)?;
    said.lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            one(line).with_context(|| format!("cargo tree printed {line:?}, which names no crate"))
        })
        .collect()
}

/// `serde v1.0.2 (/w/host/api)\tMIT OR Apache-2.0 (*)`.
fn one(line: &str) -> Option<Crate> {
    let (package, license) = line.split_once('\t')?;
    let mut words = package.split(' ');
    Some(Crate {
        name: words.next()?.to_owned(),
        version: words.next()?.strip_prefix('v')?.to_owned(),
        license: license
            .trim_end_matches(" (*)")
            .trim()
            .replace('/', " OR ")
            .replace("  ", " "),
        ours: words.next().is_some_and(|place| place.starts_with("(/")),
    })
}

fn spdx(source: &Source, packages: &[Package], crates: &BTreeSet<Crate>) -> Value {
    let home = "https://github.com/longshore-dev/longshore";
    let root = "SPDXRef-longshore";
    let mut listed = vec![json!({
        "SPDXID": root,
        "name": "longshore",
        "versionInfo": source.version,
        "downloadLocation": format!("git+{home}@{}", source.commit),
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "CONTAINER",
    })];
    let mut relations = vec![json!({
        "spdxElementId": "SPDXRef-DOCUMENT",
        "relationshipType": "DESCRIBES",
        "relatedSpdxElement": root,
    })];
    let debian = packages.iter().map(|package| {
        let Package {
            name,
            version,
            architecture,
            ..
        } = package;
        let shown = version.replace('+', "%2B");
        let mut part = part(
            &id("deb", name, version),
            [name, version, "NOASSERTION", "NOASSERTION"],
            &format!("pkg:deb/debian/{name}@{shown}?arch={architecture}&distro=debian-12"),
        );
        part["checksums"] = json!([{"algorithm": "SHA256", "checksumValue": package.sha256}]);
        part
    });
    listed.extend(debian);
    let others = crates.iter().filter(|one| one.name != "longshore");
    listed.extend(others.map(|one| {
        let from = if one.ours {
            format!("git+{home}@{}", source.commit)
        } else {
            format!("https://crates.io/crates/{}/{}", one.name, one.version)
        };
        let license = match one.license.as_str() {
            "" => "NOASSERTION",
            license => license,
        };
        part(
            &id("crate", &one.name, &one.version),
            [&one.name, &one.version, license, &from],
            &format!("pkg:cargo/{}@{}", one.name, one.version.replace('+', "%2B")),
        )
    }));
    relations.extend(listed.iter().skip(1).map(|part| {
        json!({
            "spdxElementId": root,
            "relationshipType": "CONTAINS",
            "relatedSpdxElement": part["SPDXID"],
        })
    }));
    json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("longshore-{}", source.version),
        "documentNamespace": format!("{home}/spdx/{}-{}", source.version, source.commit),
        "creationInfo": {"created": source.date(), "creators": ["Tool: cargo-xtask-image"]},
        "packages": listed,
        "relationships": relations,
    })
}

/// A package of the document.
fn part(id: &str, [name, version, license, from]: [&str; 4], address: &str) -> Value {
    json!({
        "SPDXID": id,
        "name": name,
        "versionInfo": version,
        "downloadLocation": from,
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": license,
        "copyrightText": "NOASSERTION",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": address,
        }],
    })
}

/// Letters, digits, `.` and `-` alone.
fn id(kind: &str, name: &str, version: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '.' {
            letter
        } else {
            '-'
        }
    };
    let tail: String = format!("{name}-{version}").chars().map(plain).collect();
    format!("SPDXRef-{kind}-{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_tree_are_crates() {
        let part = |line| one(line).unwrap();
        let serde = part("serde v1.0.228\tMIT OR Apache-2.0");
        assert_eq!(
            (&*serde.name, &*serde.version, serde.ours),
            ("serde", "1.0.228", false)
        );
        assert_eq!(
            part("memchr v2.7.6\tUnlicense/MIT (*)").license,
            "Unlicense OR MIT"
        );
        assert!(part("longshore-api v0.1.0 (/w/host/api)\tApache-2.0").ours);
        assert_eq!(one("[build-dependencies]"), None);
    }

    #[test]
    fn the_document_names_crates_and_packages_by_their_addresses() {
        let source = Source {
            commit: "abc".into(),
            time: 0,
            version: "0.1.0".into(),
        };
        let packages = [Package {
            name: "libc6".into(),
            version: "2.36-9+deb12u14".into(),
            architecture: "amd64".into(),
            sha256: String::new(),
            bytes: Vec::new(),
        }];
        let crates = [
            one("longshore v0.1.0 (/w)\tApache-2.0").unwrap(),
            one("ring v0.17.14\tApache-2.0 AND ISC").unwrap(),
        ];
        let document = spdx(&source, &packages, &crates.into());
        let addresses: Vec<_> = document["packages"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|package| package["externalRefs"][0]["referenceLocator"].as_str())
            .collect();
        let expected = [
            "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64&distro=debian-12",
            "pkg:cargo/ring@0.17.14",
        ];
        assert_eq!(addresses, expected);
        assert_eq!(
            document["packages"][1]["SPDXID"],
            "SPDXRef-deb-libc6-2.36-9-deb12u14"
        );
        assert_eq!(document["relationships"].as_array().unwrap().len(), 3);
    }
}
