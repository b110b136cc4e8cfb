//! Rules about the repository itself, held by tests.

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Which of our crates a crate may use. Dependencies point one way.
    const MAY_USE: [(&str, &[&str]); 9] = [
        ("core", &[]),
        ("api", &["longshore-core"]),
        ("cloud", &[]),
        ("kwok", &["longshore-api", "longshore-cloud", "longshore-core"]),
        ("policy", &["longshore-core"]),
        ("daemon", &["longshore-api", "longshore-cloud", "longshore-core", "longshore-kwok", "longshore-policy"]),
        (
            "sim",
            &["longshore", "longshore-api", "longshore-cloud", "longshore-core", "longshore-kwok", "longshore-policy"],
        ),
        ("fuzz", &["longshore", "longshore-api", "longshore-core", "longshore-kwok"]),
        ("xtask", &[]),
    ];

    fn read(file: &str) -> String {
        let file = crate::root().join(file);
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// Names under `[dependencies]` of a manifest.
    fn dependencies(manifest: &str) -> BTreeSet<String> {
        let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let names = |line: &&str| line.starts_with(|first: char| first.is_ascii_alphabetic());
        let lines = section.lines().take_while(|line| !line.starts_with('[')).filter(names);
        lines.filter_map(|line| line.split(['=', '.', ' ']).next()).map(str::to_owned).collect()
    }

    #[test]
    fn dependencies_point_one_way() {
        for (folder, allowed) in MAY_USE {
            let used = dependencies(&read(&format!("host/{folder}/Cargo.toml")));
            let ours: Vec<_> = used.iter().filter(|name| name.starts_with("longshore")).collect();
            assert!(ours.iter().all(|name| allowed.contains(&name.as_str())), "{folder} uses {ours:?}");
        }
    }

    #[test]
    fn the_core_pulls_in_no_input_or_output() {
        let used = dependencies(&read("host/core/Cargo.toml"));
        for absent in ["tokio", "kube", "log", "tracing", "rand", "serde_yaml", "reqwest", "clap"] {
            assert!(!used.contains(absent), "core uses {absent}");
        }
    }

    #[test]
    fn the_readme_and_ci_name_the_same_commands() {
        let commands = |text: &str| -> Vec<String> {
            let lines = text.lines().map(|line| line.split(" #").next().unwrap_or(line).trim().to_owned());
            lines.filter(|line| line.starts_with("cargo xtask")).collect()
        };
        assert_eq!(commands(&read(".ci/run")), ["cargo xtask test"]);
        let readme = commands(&read("README.md"));
        assert_eq!(readme[..2], ["cargo xtask demo", "cargo xtask test"], "the README opens with the two commands");
    }

    #[test]
    fn architecture_names_every_crate() {
        let page = read("host/ARCHITECTURE.md");
        for (folder, _) in MAY_USE {
            assert!(page.contains(&format!("| `{folder}/` |")), "no line for {folder}");
        }
    }

    #[test]
    fn architecture_gives_a_reason_for_every_dependency() {
        let page = read("host/ARCHITECTURE.md");
        for (folder, _) in MAY_USE {
            for name in dependencies(&read(&format!("host/{folder}/Cargo.toml"))) {
                assert!(
                    name.starts_with("longshore") || page.contains(&format!("`{name}`")),
                    "{folder} uses {name}, and nobody says why"
                );
            }
        }
    }
}
