//! Components that are compiled in a child: by the shipped program, with the memory that it may use.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::reload::guest::{Way, guest};
use crate::scene::{Scene, setup};
use longshore_live::policies::{NoticeKind, PolicyReloader, Setup};
use longshore_policy::{CompileChild, Compiler};

const ONE: &[u8] = b"[[policy]]\nname = 'one'\npath = 'one.wasm'\n";

fn folder(name: &str) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("longshore-compile-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("longshore.toml"), ONE).unwrap();
    folder
}

/// The shipped program as compiler.
fn child(most_memory: Option<u64>) -> CompileChild {
    CompileChild {
        program: env!("CARGO_BIN_EXE_longshore").into(),
        most_memory,
        ..CompileChild::itself(&["compile-policy"])
    }
}

/// Nothing can be compiled.
fn none() -> CompileChild {
    CompileChild {
        program: "/nowhere/longshore".into(),
        ..child(None)
    }
}

fn with(folder: &Path, child: CompileChild) -> Setup {
    Setup {
        cache: Some(folder.join("compiled")),
        compiler: Compiler::Child(child),
        ..setup(folder)
    }
}

/// A component whose one function has so many operators.
fn bomb(operators: usize) -> Vec<u8> {
    let body = "local.get 0 i32.add ".repeat(operators / 2);
    let module =
        format!("(component (core module (func (param i32) (result i32) local.get 0 {body})))");
    wat::parse_str(module).unwrap()
}

#[test]
fn a_child_compiles_and_the_next_start_compiles_nothing() {
    let folder = folder("kept");
    std::fs::write(folder.join("one.wasm"), guest("1.0.0", Way::Costs(3.0))).unwrap();
    let first = Scene::with(folder.clone(), |folder| with(folder, child(None)));
    assert_eq!((first.cost(), first.error("one").as_str()), (3.0, ""));
    let (again, ..) = PolicyReloader::manual(with(&folder, none())).unwrap();
    assert_eq!(again.status().policies[0].error, None);
    drop(again);
    // One bit of the code is another one: it is compiled again, and said.
    let files = std::fs::read_dir(folder.join("compiled")).unwrap();
    let code = files.map(|file| file.unwrap().path());
    let code = code.filter(|file| file.extension().is_some_and(|e| e == "cwasm"));
    let code: Vec<PathBuf> = code.collect();
    let mut bytes = std::fs::read(&code[0]).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&code[0], bytes).unwrap();
    let (again, ..) = PolicyReloader::manual(with(&folder, child(None))).unwrap();
    assert_eq!(again.status().policies[0].error, None);
    let kinds: Vec<NoticeKind> = again.notices().iter().map(|notice| notice.kind).collect();
    assert_eq!(
        kinds,
        [NoticeKind::CompiledCodeIgnored, NoticeKind::PolicyLoaded]
    );
}

#[test]
fn a_component_that_kills_its_compiler_is_marked_until_it_changes() {
    let folder = folder("bomb");
    std::fs::write(folder.join("one.wasm"), bomb(400_000)).unwrap();
    let limit = Some(72 << 20);
    let mut scene = Scene::with(folder.clone(), |folder| with(folder, child(limit)));
    let error = scene.error("one");
    assert!(error.contains("with 72 MiB of memory"), "{error}");
    assert!(
        error.ends_with("it is not compiled again before it changes"),
        "{error}"
    );
    // A restart does not try it again: it would say that no compiler starts.
    let (again, ..) = PolicyReloader::manual(with(&folder, none())).unwrap();
    let known = again.status().policies[0].error.clone().unwrap();
    assert_eq!(known.to_string(), error);
    scene.rename("one.wasm", &guest("1.0.0", Way::Costs(5.0)));
    scene.settle();
    assert_eq!((scene.cost(), scene.error("one").as_str()), (5.0, ""));
}

#[test]
fn what_was_refused_for_want_of_a_compiler_is_tried_again_without_a_change() {
    let folder = folder("again");
    std::fs::write(folder.join("one.wasm"), guest("1.0.0", Way::Costs(3.0))).unwrap();
    let once = folder.join("once");
    let script = format!(
        "test -e {0} && exec \"$0\" \"$@\"; touch {0}; exit 9",
        once.display()
    );
    let mut fails_once = child(None);
    fails_once.program = "/bin/sh".into();
    fails_once.arguments = [
        "-c",
        &script,
        env!("CARGO_BIN_EXE_longshore"),
        "compile-policy",
    ]
    .map(Into::into)
    .into();
    let mut scene = Scene::with(folder, |folder| with(folder, fails_once.clone()));
    let error = scene.error("one");
    assert!(error.contains("ended with code 9"), "{error}");
    assert!(error.ends_with("it is tried again in a while"), "{error}");
    // A minute later.
    scene
        .watcher
        .step(std::time::SystemTime::now() + Duration::from_secs(130));
    assert_eq!((scene.cost(), scene.error("one").as_str()), (3.0, ""));
}

#[test]
fn a_start_does_not_wait_for_the_compiler() {
    let folder = folder("start");
    std::fs::write(folder.join("one.wasm"), guest("1.0.0", Way::Costs(3.0))).unwrap();
    let mut slow = child(None);
    slow.program = "/bin/sh".into();
    let script = "sleep 3; exec \"$0\" \"$@\"";
    slow.arguments = [
        "-c",
        script,
        env!("CARGO_BIN_EXE_longshore"),
        "compile-policy",
    ]
    .map(Into::into)
    .into();
    let begun = Instant::now();
    let reloader = PolicyReloader::start(with(&folder, slow)).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2));
    let status = reloader.status();
    assert!(status.policies[0].loading && status.policies[0].version.is_none());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let soon = Duration::from_millis(100);
        assert!(tokio::time::timeout(soon, reloader.loaded()).await.is_err());
        let late = Duration::from_secs(60);
        tokio::time::timeout(late, reloader.loaded()).await.unwrap();
    });
    let status = reloader.status();
    assert!(!status.policies[0].loading);
    assert_eq!(status.policies[0].version.as_deref(), Some("flat 1.0.0"));
    drop(reloader);
    let _ = std::fs::remove_dir_all(folder);
}
