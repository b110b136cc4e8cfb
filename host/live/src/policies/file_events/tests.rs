use std::sync::mpsc::{Receiver, sync_channel};

use notify::{ErrorKind, EventHandler, WatcherKind};

use super::*;

/// A system that has no watches left.
struct Full;

impl Watcher for Full {
    fn new<F: EventHandler>(_: F, _: Config) -> notify::Result<Self> {
        Ok(Full)
    }

    fn watch(&mut self, _: &Path, _: RecursiveMode) -> notify::Result<()> {
        Err(notify::Error::new(ErrorKind::MaxFilesWatch))
    }

    fn unwatch(&mut self, _: &Path) -> notify::Result<()> {
        Ok(())
    }

    fn kind() -> WatcherKind {
        WatcherKind::NullWatcher
    }
}

/// A system that has no inotify instances left: 128 for a user and node.
struct NoInstance;

impl Watcher for NoInstance {
    fn new<F: EventHandler>(_: F, _: Config) -> notify::Result<Self> {
        Err(notify::Error::io(std::io::Error::from_raw_os_error(
            libc::EMFILE,
        )))
    }

    fn watch(&mut self, _: &Path, _: RecursiveMode) -> notify::Result<()> {
        Ok(())
    }

    fn unwatch(&mut self, _: &Path) -> notify::Result<()> {
        Ok(())
    }

    fn kind() -> WatcherKind {
        WatcherKind::NullWatcher
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!(
        "longshore-file-events-{name}-{}",
        std::process::id()
    ));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder.canonicalize().unwrap()
}

/// A ConfigMap with `file`, as the kubelet mounts it.
fn mounted(folder: &Path, version: &str, content: &str) {
    std::fs::create_dir_all(folder.join(version)).unwrap();
    std::fs::write(folder.join(version).join("file"), content).unwrap();
    std::os::unix::fs::symlink(version, folder.join("..tmp")).unwrap();
    std::fs::rename(folder.join("..tmp"), folder.join("..data")).unwrap();
    let _ = std::os::unix::fs::symlink("..data/file", folder.join("file"));
}

fn events<W: Watcher>() -> (FileEvents<W>, Receiver<()>) {
    let (wakes, woken) = sync_channel(1);
    (FileEvents::new(wakes), woken)
}

fn arm<W: Watcher>(events: &mut FileEvents<W>, file: &Path) {
    events.arm(std::iter::once(file), &Mounts::default());
}

const SOON: Duration = Duration::from_secs(10);

#[test]
fn the_folder_of_each_link_and_the_last_one_are_watched() {
    let root = folder("folders");
    mounted(&root, "..1", "one");
    let named = |names: &[&str]| names.iter().map(|n| root.join(n)).collect::<BTreeSet<_>>();
    assert_eq!(folders(&root.join("file")), named(&["", "..1"]));
    // `items.path: a/b.wasm`: the visible `a` is itself a link.
    std::fs::create_dir(root.join("..1/a")).unwrap();
    std::fs::write(root.join("..1/a/b.wasm"), "b").unwrap();
    std::os::unix::fs::symlink("..data/a", root.join("a")).unwrap();
    assert_eq!(folders(&root.join("a/b.wasm")), named(&["", "..1/a"]));
    assert_eq!(
        folders(&root.join("none/deeper/file")),
        named(&[""]),
        "it would appear there"
    );
    std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
    assert_eq!(folders(&root.join("loop/x")), named(&[""]));
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn swaps_of_a_config_map_wake_each_time() {
    let root = folder("swap");
    mounted(&root, "..0", "0");
    let (mut events, woken) = events::<RecommendedWatcher>();
    arm(&mut events, &root.join("file"));
    assert_eq!(events.status().without_events, None);
    for nth in 1..4 {
        mounted(&root, &format!("..{nth}"), "other");
        std::fs::remove_dir_all(root.join(format!("..{}", nth - 1))).unwrap();
        woken.recv_timeout(SOON).unwrap();
        arm(&mut events, &root.join("file"));
        while woken.recv_timeout(QUIET_PERIOD).is_ok() {}
    }
    // Into the file that the links lead to.
    std::fs::write(root.join("file"), "written in place").unwrap();
    woken.recv_timeout(SOON).unwrap();
    while woken.recv_timeout(QUIET_PERIOD).is_ok() {}
    assert_eq!(std::fs::read(root.join("file")).unwrap().len(), 16);
    assert!(
        woken.recv_timeout(QUIET_PERIOD).is_err(),
        "reading a file is no event"
    );
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_folder_that_is_made_anew_is_watched_again() {
    let root = folder("anew");
    std::fs::create_dir(root.join("sub")).unwrap();
    let file = root.join("sub/file");
    let (mut events, woken) = events::<RecommendedWatcher>();
    arm(&mut events, &file);
    std::fs::remove_dir(root.join("sub")).unwrap();
    woken.recv_timeout(SOON).unwrap();
    arm(&mut events, &file);
    while woken.recv_timeout(QUIET_PERIOD).is_ok() {}
    std::fs::create_dir(root.join("sub")).unwrap();
    woken.recv_timeout(SOON).unwrap();
    arm(&mut events, &file);
    while woken.recv_timeout(QUIET_PERIOD).is_ok() {}
    std::fs::write(&file, "new").unwrap();
    woken.recv_timeout(SOON).unwrap();
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn files_are_looked_at_often_where_a_watch_fails() {
    let root = folder("full");
    let (mut full, _woken) = events::<Full>();
    arm(&mut full, &root.join("file"));
    let why = full.status().without_events.clone().unwrap();
    assert!(why.ends_with("MaxFilesWatch"), "{why}");
    let now = Instant::now();
    full.looked(now, false, false);
    assert_eq!(full.wait(now), FAST_LOOK);
    let (mut none, _woken) = events::<NoInstance>();
    arm(&mut none, &root.join("file"));
    let why = none.status().without_events.clone().unwrap();
    assert!(why.starts_with("no watch can be made: "), "{why}");
    assert_eq!(none.status().look_every_ms, 500);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_look_follows_events_that_have_come_to_rest_or_do_not_end() {
    let (mut events, _woken) = events::<Full>();
    events.status.look_every_ms = 30_000;
    let begin = Instant::now();
    let after = |ms| begin + Duration::from_millis(ms);
    assert!(events.wait(begin).is_zero(), "the first look is due");
    events.looked(begin, false, false);
    assert_eq!(events.wait(begin), SLOW_LOOK);
    events.heard(after(100));
    assert_eq!(events.wait(after(100)), QUIET_PERIOD);
    for ms in (200..1100).step_by(100) {
        events.heard(after(ms));
    }
    assert!(events.wait(after(1099)) > Duration::ZERO);
    assert!(events.wait(after(1100)).is_zero(), "they do not end");
    events.looked(after(1100), true, true);
    assert_eq!(
        events.wait(after(1100)),
        QUIET_PERIOD,
        "a file is being written"
    );
    events.looked(after(1300), false, true);
    assert_eq!(events.wait(after(1300)), FAST_LOOK, "and young then");
}
