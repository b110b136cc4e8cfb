//! `longshore:policy@0.1.0` is frozen: what is published of it stays as it is, to the letter of its
//! types. It grows by new interfaces and new worlds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

const HOW: &str = "An interface or world of longshore:policy that is published never changes and never goes: \
    components are built against it, and tools of some languages import all functions of an interface, called or not. \
    To add something, write a new interface with `@since` of the next patch version, raise the version of the package \
    to that, offer the interface in a new world beside the old ones, define it in host/policy/src/imports.rs, and add \
    the line that this test prints to host/policy/tests/data/contract.tsv. To change something, publish another minor \
    version and serve both.";

fn folder() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../wit/policy@0.1.0")
}

/// All files of the package, one after the other.
fn text() -> String {
    let files = std::fs::read_dir(folder()).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect()
}

/// Lines without comments and indentation.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//"))
}

/// Interfaces and worlds by name, `interface offerings`, with what is in them.
fn items(text: &str) -> BTreeMap<String, String> {
    let mut items = BTreeMap::new();
    let mut open: Option<(String, String)> = None;
    for line in lines(text) {
        let head = line.strip_suffix(" {");
        let head = head.filter(|head| head.starts_with("interface ") || head.starts_with("world "));
        match (&mut open, head) {
            (None, Some(head)) => open = Some((head.to_owned(), String::new())),
            (Some((_, body)), None) if line == "}" && depth(body) == 0 => {
                items.extend(open.take());
            }
            (Some((_, body)), _) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    items
}

/// Braces that are open within an item.
fn depth(body: &str) -> usize {
    body.matches('{').count() - body.matches('}').count()
}

fn digest(body: &str) -> String {
    let sum = Sha256::digest(body.as_bytes());
    sum[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is wrong with items beside what was published.
fn problems(items: &BTreeMap<String, String>, published: &str) -> Vec<String> {
    let rows = published.lines().filter_map(|line| line.split_once('\t'));
    let published: BTreeMap<&str, &str> = rows.collect();
    let gone = published.keys().filter(|name| !items.contains_key(**name));
    let mut problems: Vec<String> = gone.map(|name| format!("`{name}` is gone")).collect();
    for (name, body) in items {
        match published.get(name.as_str()) {
            None => problems.push(format!("`{name}` is new: {name}\t{}", digest(body))),
            Some(known) if **known != digest(body) => {
                problems.push(format!("`{name}` has changed"))
            }
            Some(_) => {}
        }
    }
    problems
}

#[test]
fn what_is_published_of_the_contract_is_as_it_was() {
    let problems = problems(&items(&text()), include_str!("data/contract.tsv"));
    assert!(problems.is_empty(), "{}\n{HOW}", problems.join("\n"));
}

#[test]
fn a_change_of_any_kind_is_noticed() {
    let before = text();
    let published: String = (items(&before).iter())
        .map(|(name, body)| format!("{name}\t{}\n", digest(body)))
        .collect();
    let noticed = |from: &str, to: &str| {
        assert!(before.contains(from), "{from}");
        let problems = problems(&items(&before.replace(from, to)), &published);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().next().unwrap()
    };
    let renamed = "configure: func(options: string)";
    assert_eq!(
        noticed("configure: func(settings: string)", renamed),
        "`interface plugin` has changed"
    );
    let less = "    @since(version = 0.1.0)\n    prices: func() -> list<f64>;\n";
    assert_eq!(noticed(less, ""), "`interface offerings` has changed");
    assert_eq!(
        noticed("    remaining: f64,", "    left: f64,"),
        "`interface commitments` has changed"
    );
    assert_eq!(
        noticed(
            "    export scorer;",
            "    export scorer;\n    export commitments;"
        ),
        "`world scorer-policy` has changed"
    );
    let more = "interface weather {\n}\n\n/// A voice.";
    let new = noticed("/// A voice.", more);
    assert!(new.starts_with("`interface weather` is new: interface weather\t"));
    let words = problems(
        &items(&before.replace("/// One sentence for people.", "/// A sentence.")),
        &published,
    );
    assert!(words.is_empty(), "comments may change: {words:?}");
}

#[test]
fn everything_says_since_when_it_is_there_and_keeps_the_rules_of_the_border() {
    let text = text();
    let all: Vec<&str> = lines(&text).collect();
    let is_item = |line: &str| {
        let kinds = [
            "interface ",
            "world ",
            "record ",
            "enum ",
            "import ",
            "export ",
            "include ",
        ];
        kinds.iter().any(|kind| line.starts_with(kind)) || line.contains(": func(")
    };
    let mut items = 0;
    for pair in all.windows(2) {
        if is_item(pair[1]) {
            items += 1;
            assert!(pair[0].starts_with("@since(version = 0.1."), "{}", pair[1]);
        }
    }
    assert!(items > 60, "{items}");
    for word in [
        "resource ",
        "async ",
        "future<",
        "stream<",
        "map<",
        "list<u64>",
        "list<s64>",
    ] {
        assert!(!all.iter().any(|line| line.contains(word)), "{word}");
    }
}
