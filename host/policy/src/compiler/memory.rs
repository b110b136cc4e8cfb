//! How much memory is left: in the cgroup, else on the machine.

use std::path::Path;

/// Bytes that may still be used; `None` where the system does not say.
pub(super) fn left() -> Option<u64> {
    let machine = machine(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    cgroup(Path::new("/sys/fs/cgroup"), &groups)
        .into_iter()
        .chain(machine)
        .min()
}

fn machine(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// What is left below the lowest limit of the process's groups. In a container its own group is the
/// root of what it sees, whatever its name outside.
fn cgroup(root: &Path, groups: &str) -> Option<u64> {
    let own = |hierarchy: &str| {
        let named = |line: &&str| {
            line.split_once(':')
                .is_some_and(|(_, of)| of.starts_with(hierarchy))
        };
        let line = groups.lines().find(named);
        let path = line.and_then(|line| line.rsplit_once(":/"));
        Path::new(path.map_or("", |(_, path)| path)).ancestors()
    };
    let two = own(":/").map(|group| root.join(group));
    let two = two.filter_map(|at| of(&at, ["memory.max", "memory.current"], "inactive_file "));
    let old = own("memory:/").map(|group| root.join("memory").join(group));
    let names = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
    let old = old.filter_map(|at| of(&at, names, "total_inactive_file "));
    two.chain(old).min()
}

fn of(group: &Path, [limit, used]: [&str; 2], idle: &str) -> Option<u64> {
    let text = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let limit = number(limit)?;
    // Pages of files that the kernel drops when memory is wanted.
    let stat = text("memory.stat").unwrap_or_default();
    let idle = stat.lines().find_map(|line| line.strip_prefix(idle));
    let idle = idle.and_then(|bytes| bytes.trim().parse::<u64>().ok());
    let used = number(used)?.saturating_sub(idle.unwrap_or(0));
    Some(limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_of_the_groups_counts_without_idle_files() {
        let root = std::env::temp_dir().join(format!("longshore-cgroup-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let group = |at: &str, limit: &str, used: &str, idle: &str| {
            let at = root.join(at);
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("memory.max"), limit).unwrap();
            std::fs::write(at.join("memory.current"), used).unwrap();
            let stat = format!("anon 5\ninactive_file {idle}\nactive_file 7\n");
            std::fs::write(at.join("memory.stat"), stat).unwrap();
        };
        group("pod", "1000\n", "300\n", "100");
        group("pod/own", "max\n", "200\n", "0");
        assert_eq!(cgroup(&root, "0::/pod/own\n"), Some(800));
        group("pod/own", "500\n", "200\n", "0");
        assert_eq!(cgroup(&root, "0::/pod/own\n"), Some(300));
        assert_eq!(cgroup(&root, "0::/\n"), None, "no limit at the root");
        group("", "600", "700", "0");
        assert_eq!(cgroup(&root, "0::/elsewhere\n"), Some(0));
        std::fs::remove_dir_all(&root).unwrap();
        let old = root.join("memory");
        std::fs::create_dir_all(&old).unwrap();
        std::fs::write(old.join("memory.limit_in_bytes"), "900").unwrap();
        std::fs::write(old.join("memory.usage_in_bytes"), "400").unwrap();
        std::fs::write(old.join("memory.stat"), "total_inactive_file 50").unwrap();
        assert_eq!(cgroup(&root, "5:memory:/x\n"), Some(550));
        std::fs::create_dir_all(old.join("x")).unwrap();
        std::fs::write(old.join("x/memory.limit_in_bytes"), "300").unwrap();
        std::fs::write(old.join("x/memory.usage_in_bytes"), "100").unwrap();
        assert_eq!(cgroup(&root, "0::/\n5:memory:/x\n"), Some(200));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(cgroup(&root, ""), None);
        assert_eq!(
            machine("MemFree: 1 kB\nMemAvailable:    2 kB\n"),
            Some(2048)
        );
    }
}
