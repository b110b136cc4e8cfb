use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn folder(name: &str) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("longshore-cache-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// An empty component, its digest and its code.
fn sample(engine: &Engine) -> (String, Vec<u8>) {
    let bytes = wat::parse_str("(component)").unwrap();
    let code = engine.precompile_component(&bytes).unwrap();
    (hex(&Sha256::digest(&bytes)), code)
}

fn why(kept: Kept) -> String {
    match kept {
        Kept::Code(_) => "code".into(),
        Kept::Nothing => "nothing".into(),
        Kept::PassedOver(why) => why,
    }
}

#[test]
fn code_is_kept_for_its_component_and_engine_alone() {
    let (folder, engine) = (folder("kept"), Engine::default());
    let cache = Cache {
        folder: &folder,
        engine: &engine,
    };
    let (digest, code) = sample(&engine);
    assert_eq!(why(cache.get(&digest)), "nothing");
    cache.put(&digest, &code).unwrap();
    assert_eq!(why(cache.get(&digest)), "code");
    // Under the name of another component.
    let other = hex(&Sha256::digest(b"other"));
    std::fs::copy(cache.file(&digest), cache.file(&other)).unwrap();
    let said = why(cache.get(&other));
    assert!(
        said.ends_with("compiled code of another component"),
        "{said}"
    );
    // Under the name for another engine.
    let fueled = Engine::new(wasmtime::Config::new().consume_fuel(true)).unwrap();
    let its = Cache {
        folder: &folder,
        engine: &fueled,
    };
    std::fs::copy(cache.file(&digest), its.file(&digest)).unwrap();
    let said = why(its.get(&digest));
    assert!(said.ends_with("compiled by another engine"), "{said}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn damaged_and_foreign_files_are_passed_over_with_a_word() {
    let (folder, engine) = (folder("damaged"), Engine::default());
    let cache = Cache {
        folder: &folder,
        engine: &engine,
    };
    let (digest, code) = sample(&engine);
    cache.put(&digest, &code).unwrap();
    let file = cache.file(&digest);
    let whole = std::fs::read(&file).unwrap();
    let said = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        why(cache.get(&digest))
    };
    for at in [HEADER, HEADER + code.len() / 2, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        assert!(said(&flipped).ends_with(": damaged"), "byte {at}");
    }
    assert!(said(&whole[..100]).ends_with(": cut short"));
    assert!(said(&[0; 200]).ends_with(": not a file of this release"));
    assert_eq!(said(&whole), "code");
    for (path, open, closed) in [(&file, 0o644, 0o600), (&folder, 0o755, 0o700)] {
        mode(path, open);
        let said = why(cache.get(&digest));
        assert!(said.contains("closed to others"), "{said}");
        mode(path, closed);
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&file, Some(4711), None).unwrap();
        let said = why(cache.get(&digest));
        assert!(said.contains("belongs to user 4711"), "{said}");
    }
    mode(&folder, 0o755);
    let refused = cache.put(&digest, &code).unwrap_err();
    assert!(refused.contains("closed to others"), "{refused}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn marks_are_set_and_taken_back() {
    let folder = folder("marks");
    assert_eq!(mark(&folder, "ab"), None);
    set_mark(&folder, "ab", "it was killed");
    assert_eq!(mark(&folder, "ab").as_deref(), Some("it was killed"));
    assert_eq!(mark(&folder, "cd"), None);
    clear_mark(&folder, "ab");
    assert_eq!(mark(&folder, "ab"), None);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_oldest_files_go_when_there_are_too_many_or_they_are_too_large() {
    let folder = folder("prune");
    std::fs::create_dir_all(&folder).unwrap();
    for nth in 0..5_u64 {
        let file = File::create(folder.join(format!("{nth}.cwasm"))).unwrap();
        file.set_len(100).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 + nth))
            .unwrap();
    }
    std::fs::write(folder.join("other"), "stays").unwrap();
    let left = || {
        let names = std::fs::read_dir(&folder).unwrap();
        let mut names: Vec<_> = names
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    prune(&folder, CODE, 4, 1000);
    assert_eq!(
        left(),
        ["1.cwasm", "2.cwasm", "3.cwasm", "4.cwasm", "other"]
    );
    prune(&folder, CODE, 4, 250);
    assert_eq!(left(), ["3.cwasm", "4.cwasm", "other"]);
    std::fs::remove_dir_all(folder).unwrap();
}
