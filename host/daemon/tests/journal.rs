//! Journals as people name them on the command line: what is no journal, newer, cut or damaged.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn longshore(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longshore"))
        .args(args)
        .output()
        .expect("longshore starts")
}

/// A file of this test's own.
fn file(name: &str, content: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("journal");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, content).unwrap();
    file
}

/// What each of the commands says of a file that it refuses.
fn refused(file: &Path) -> String {
    let path = file.to_str().unwrap();
    let mut said = String::new();
    for args in [
        vec!["replay", path],
        vec!["journal", "show", path],
        vec!["journal", "grep", "web", path],
    ] {
        let output = longshore(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(path) && said.contains("hint: "), "{said}");
    }
    said
}

fn header(version: u32) -> Vec<u8> {
    let mut bytes = [b"LSJOURNL".as_slice(), &version.to_le_bytes()].concat();
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason_and_a_hint() {
    assert!(refused(&file("foreign.journal", b"apiVersion: v1\n")).contains("not a journal"));
    assert!(refused(&file("newer.journal", &header(9))).contains("a journal of version 9"));
    let mut damaged = header(1);
    damaged[9] ^= 4;
    assert!(refused(&file("damaged.journal", &damaged)).contains("corrupt: the header at byte 0"));
    let frame = [header(1), b"what is this? no frame".to_vec()].concat();
    assert!(refused(&file("frame.journal", &frame)).contains("corrupt: the record at byte 16"));
    assert!(refused(Path::new("/nowhere/at/all")).contains("No such file"));
}

#[test]
fn a_journal_that_ends_in_its_header_is_read_up_to_there() {
    let cut = file("cut.journal", &header(1)[..10]);
    let output = longshore(&["replay", cut.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("read up to byte 0")
            && said.contains("no round of it could be decided again"),
        "{said}"
    );
}

#[test]
fn arguments_that_make_no_sense_say_what_would() {
    let cut = file("arguments.journal", &header(1));
    let path = cut.to_str().unwrap();
    for (args, words) in [
        (
            vec!["journal", "show", path, "--from", "yesterday"],
            "2026-11-01T12:00:00Z",
        ),
        (
            vec!["journal", "show", path, "--kind", "pot"],
            "nodepool, nodeclaim",
        ),
        (
            vec!["replay", path, "--scorer", "nowhere.wasm"],
            "cannot read nowhere.wasm",
        ),
    ] {
        let output = longshore(&args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
