//! Rules about the repository itself, checked by tests.

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::module_cycles;

    /// Which of our crates a crate may use. Dependencies point one way.
    const MAY_USE: [(&str, &[&str]); 24] = [
        ("core", &[]),
        ("api", &["longshore-core", "longshore-objects"]),
        ("objects", &[]),
        ("cloud", &["longshore-api"]),
        (
            "kwok",
            &["longshore-api", "longshore-cloud", "longshore-core"],
        ),
        ("userdata", &[]),
        (
            "ec2",
            &[
                "longshore-api",
                "longshore-cloud",
                "longshore-core",
                "longshore-expression",
                "longshore-userdata",
            ],
        ),
        ("emulator", &["longshore-api", "longshore-ec2"]),
        (
            "aws",
            &[
                "longshore-api",
                "longshore-cloud",
                "longshore-core",
                "longshore-ec2",
            ],
        ),
        (
            "policy",
            &["longshore-core", "longshore-golden", "longshore-files"],
        ),
        ("golden", &[]),
        ("files", &[]),
        ("fail-points", &[]),
        (
            "journal",
            &[
                "longshore-api",
                "longshore-core",
                "longshore-fail-points",
                "longshore-kwok",
                "longshore-policy",
                "longshore-report",
            ],
        ),
        ("report", &["longshore-api", "longshore-core"]),
        (
            "prove",
            &[
                "longshore-api",
                "longshore-core",
                "longshore-kwok",
                "longshore-policy",
            ],
        ),
        ("bundle", &["longshore-files"]),
        ("expression", &[]),
        (
            "live",
            &[
                "longshore-api",
                "longshore-aws",
                "longshore-bundle",
                "longshore-cloud",
                "longshore-core",
                "longshore-ec2",
                "longshore-expression",
                "longshore-fail-points",
                "longshore-journal",
                "longshore-kwok",
                "longshore-files",
                "longshore-policy",
                "longshore-report",
            ],
        ),
        (
            "daemon",
            &[
                "longshore-api",
                "longshore-aws",
                "longshore-bundle",
                "longshore-cloud",
                "longshore-core",
                "longshore-ec2",
                "longshore-emulator",
                "longshore-expression",
                "longshore-files",
                "longshore-journal",
                "longshore-kwok",
                "longshore-live",
                "longshore-policy",
                "longshore-prove",
                "longshore-report",
            ],
        ),
        (
            "sim",
            &[
                "longshore-api",
                "longshore-aws",
                "longshore-cloud",
                "longshore-core",
                "longshore-ec2",
                "longshore-emulator",
                "longshore-files",
                "longshore-journal",
                "longshore-kwok",
                "longshore-live",
                "longshore-policy",
                "longshore-report",
                "longshore-simcluster",
            ],
        ),
        (
            "simcluster",
            &[
                "longshore-api",
                "longshore-cloud",
                "longshore-core",
                "longshore-ec2",
                "longshore-kwok",
            ],
        ),
        (
            "fuzz",
            &[
                "longshore-api",
                "longshore-core",
                "longshore-ec2",
                "longshore-journal",
                "longshore-kwok",
                "longshore-live",
            ],
        ),
        ("xtask", &[]),
    ];

    /// Modules of `core`, each of which may use those that come before it and no others.
    const MODULES: [&str; 19] = [
        "model",
        "stop",
        "rng",
        "ids",
        "reasons",
        "matching",
        "cron",
        "policy",
        "plan",
        "snapshot",
        "check",
        "schedule",
        "overlay",
        "kube_scheduler",
        "optimize",
        "planner",
        "disrupt",
        "explain",
        "lib",
    ];

    fn read(file: &str) -> String {
        let file = longshore_xtask::guests::root().join(file);
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// Names under `[dependencies]` of a manifest.
    fn dependencies(manifest: &str) -> BTreeSet<String> {
        let section = manifest
            .split("\n[dependencies]\n")
            .nth(1)
            .unwrap_or_default();
        let names = |line: &&str| line.starts_with(|first: char| first.is_ascii_alphabetic());
        let lines = section
            .lines()
            .take_while(|line| !line.starts_with('['))
            .filter(names);
        lines
            .filter_map(|line| line.split(['=', '.', ' ']).next())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn dependencies_point_one_way() {
        for (folder, allowed) in MAY_USE {
            let used = dependencies(&read(&format!("host/{folder}/Cargo.toml")));
            let ours: Vec<_> = used
                .iter()
                .filter(|name| name.starts_with("longshore"))
                .collect();
            assert!(
                ours.iter().all(|name| allowed.contains(&name.as_str())),
                "{folder} uses {ours:?}"
            );
        }
    }

    /// Modules of the crate that a source names after `crate::`, braces included.
    fn named_modules(text: &str) -> BTreeSet<String> {
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n");
        let word = |text: &str| -> String {
            text.chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect()
        };
        let after = code
            .split("crate::")
            .skip(1)
            .flat_map(|rest| match rest.strip_prefix('{') {
                None => vec![word(rest)],
                Some(list) => list
                    .split('}')
                    .next()
                    .unwrap_or("")
                    .split(',')
                    .map(|one| word(one.trim()))
                    .collect(),
            });
        after.filter(|module| !module.is_empty()).collect()
    }

    #[test]
    fn modules_of_the_core_use_those_below_them_alone() {
        let folder = longshore_xtask::guests::root().join("host/core/src");
        let mut wrong = Vec::new();
        for file in module_cycles::sources(&folder) {
            let inside = file
                .strip_prefix(&folder)
                .expect("a file of the folder")
                .to_string_lossy()
                .into_owned();
            let own = inside
                .split(['/', '.'])
                .next()
                .unwrap_or_default()
                .to_owned();
            let level = |module: &str| MODULES.iter().position(|known| *known == module);
            let at =
                level(&own).unwrap_or_else(|| panic!("{own} has no place in the order of modules"));
            for used in named_modules(&std::fs::read_to_string(&file).expect("a source")) {
                if used != own && level(&used).is_none_or(|used| used > at) {
                    wrong.push(format!("{inside} uses {used}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn modules_are_named_with_and_without_braces() {
        let text = "// crate::no\nuse crate::model::Sym;\nuse crate::{plan, check::Rule};\nlet x = crate::ids::PodIx(0);";
        assert_eq!(
            named_modules(text).into_iter().collect::<Vec<_>>(),
            ["check", "ids", "model", "plan"]
        );
    }

    /// Only `host/aws` may name crates of AWS's SDK, and nothing is built with it by default. `cargo
    /// tree` sees crates that come in through others, too.
    #[test]
    fn no_crate_depends_on_the_sdk_of_aws() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let metadata = std::process::Command::new(&cargo)
            .args(["tree", "--workspace", "--exclude", "longshore-aws"])
            .args(["--edges", "normal,build,dev", "--prefix", "none"])
            .args(["--offline", "--locked", "--format", "{p}"])
            .current_dir(longshore_xtask::guests::root())
            .output()
            .expect("cargo runs");
        let said = String::from_utf8_lossy(&metadata.stderr);
        assert!(metadata.status.success(), "{said}");
        let tree = String::from_utf8_lossy(&metadata.stdout);
        let names: BTreeSet<&str> = tree
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert!(names.contains("longshore-ec2"), "{tree}");
        // The cryptography of rustls has such a name and is none of the SDK.
        let sdk = |name: &&&str| name.starts_with("aws-") && !name.starts_with("aws-lc-");
        let found: Vec<_> = names.iter().filter(sdk).collect();
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn the_core_pulls_in_no_input_or_output() {
        let used = dependencies(&read("host/core/Cargo.toml"));
        for absent in [
            "tokio",
            "kube",
            "log",
            "tracing",
            "rand",
            "serde_yaml",
            "reqwest",
            "clap",
        ] {
            assert!(!used.contains(absent), "core uses {absent}");
        }
    }

    #[test]
    fn the_loop_knows_no_command_line() {
        assert!(!dependencies(&read("host/live/Cargo.toml")).contains("clap"));
    }

    #[test]
    fn the_readme_and_ci_name_the_same_commands() {
        let commands = |text: &str| -> Vec<String> {
            let lines = text
                .lines()
                .map(|line| line.split(" #").next().unwrap_or(line).trim().to_owned());
            lines
                .filter(|line| line.starts_with("cargo xtask"))
                .collect()
        };
        assert_eq!(commands(&read(".ci/run")), ["cargo xtask test"]);
        let readme = commands(&read("README.md"));
        assert_eq!(
            readme[..2],
            ["cargo xtask demo", "cargo xtask test"],
            "the README opens with the two commands"
        );
    }

    #[test]
    fn architecture_names_every_crate() {
        let page = read("host/ARCHITECTURE.md");
        for (folder, _) in MAY_USE {
            assert!(
                page.contains(&format!("| `{folder}/` |")),
                "no line for {folder}"
            );
        }
    }

    #[test]
    fn architecture_gives_a_reason_for_every_dependency() {
        let page = read("host/ARCHITECTURE.md");
        for (folder, _) in MAY_USE {
            for name in dependencies(&read(&format!("host/{folder}/Cargo.toml"))) {
                assert!(
                    name.starts_with("longshore") || page.contains(&format!("`{name}`")),
                    "{folder} uses {name}, and ARCHITECTURE.md gives no reason"
                );
            }
        }
    }

    /// Pages for users and contributors, without the dated notes.
    fn pages() -> Vec<String> {
        let docs = std::fs::read_dir(longshore_xtask::guests::root().join("host/docs"))
            .expect("host/docs");
        let docs =
            docs.map(|entry| format!("host/docs/{}", entry.unwrap().file_name().to_string_lossy()));
        let mut pages: Vec<String> = docs.filter(|name| name.ends_with(".md")).collect();
        pages.extend(
            [
                "README.md",
                "host/ARCHITECTURE.md",
                "host/docs/design/README.md",
            ]
            .map(str::to_owned),
        );
        pages.sort();
        pages
    }

    #[test]
    fn readme_and_architecture_are_short() {
        for page in ["README.md", "host/ARCHITECTURE.md"] {
            let lines = read(page).lines().count();
            assert!(lines <= 250, "{page} has {lines} lines");
        }
    }

    /// A page without what is generated from the help of flags and metrics.
    fn written_by_hand(page: &str) -> String {
        let text = read(page);
        let mut parts = text.split("<!-- generated: ");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| {
            all + part.split_once("<!-- end -->").expect("an end").1
        })
    }

    #[test]
    fn pages_are_a_hundred_columns_wide() {
        for page in pages() {
            let text = written_by_hand(&page);
            // A row of a table cannot be broken.
            let free = |line: &&str| page != "README.md" && line.starts_with('|');
            let wide: Vec<&str> = text
                .lines()
                .filter(|line| line.chars().count() > 100 && !free(line))
                .collect();
            assert!(wide.is_empty(), "{page}: {wide:#?}");
        }
    }

    /// What `[text](target)` points at.
    fn links(text: &str) -> impl Iterator<Item = &str> {
        text.split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
    }

    /// The anchor of a heading, as forges make it.
    fn anchor(heading: &str) -> String {
        let text = heading
            .trim_start_matches('#')
            .trim()
            .to_lowercase()
            .replace(' ', "-");
        text.chars()
            .filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_')
            .collect()
    }

    #[test]
    fn links_of_pages_lead_somewhere() {
        for page in pages() {
            let (text, folder) = (read(&page), longshore_xtask::guests::root().join(&page));
            for link in links(&text).filter(|link| !link.starts_with("http")) {
                let (file, section) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() {
                    folder.clone()
                } else {
                    folder.with_file_name(file)
                };
                assert!(target.exists(), "{page}: {link}");
                if !section.is_empty() {
                    let text = std::fs::read_to_string(&target).expect("a page");
                    let found = text
                        .lines()
                        .any(|line| line.starts_with('#') && anchor(line) == section);
                    assert!(found, "{page}: {link} has no such section");
                }
            }
        }
    }

    #[test]
    fn files_that_pages_about_the_code_name_are_there() {
        let page = read("host/ARCHITECTURE.md") + &read("host/docs/where-to-look.md");
        let host = longshore_xtask::guests::root().join("host");
        let in_line = |line: &str| -> Vec<String> {
            let named = line.split('`').skip(1).step_by(2).map(str::to_owned);
            named.collect()
        };
        for line in page.lines() {
            let named = in_line(line);
            // The row of a room of the live loop names its files.
            let room = named.first().filter(|name| name.ends_with('/'));
            let room = room.map_or("", String::as_str);
            let is_file = |name: &&String| name.ends_with(".rs") && !name.contains(' ');
            for named in named.iter().filter(is_file) {
                let places = [
                    host.join(named),
                    host.join("live/src").join(room).join(named),
                    host.join("core/src").join(named),
                ];
                assert!(places.iter().any(|place| place.is_file()), "no {named}");
            }
        }
    }
}
