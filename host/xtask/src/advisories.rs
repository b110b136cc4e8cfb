//! Holds the version of wasmtime against the list of known advisories in `policy`.

#[cfg(test)]
mod tests {
    use anyhow::{Context, Result, bail};

    const LIST: &str = include_str!("../../policy/wasmtime-advisories.tsv");
    const LOCK: &str = include_str!("../../../Cargo.lock");

    type Version = [u64; 3];

    fn version(text: &str) -> Result<Version> {
        let parts: Vec<u64> = text.split('.').map(str::parse).collect::<Result<_, _>>()?;
        parts
            .try_into()
            .ok()
            .with_context(|| format!("{text} is no version"))
    }

    /// Advisories of a list that concern a version, a line each.
    fn concerning(list: &str, used: Version) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('\t').collect();
            let [id, _date, since, patched, what] = cells[..] else {
                bail!("expected five cells: {line}");
            };
            let mut is_fine = used[0] < since.parse()?;
            for good in patched.split(' ') {
                let least = version(good.trim_end_matches('+'))?;
                let later = good.ends_with('+') && used[0] > least[0];
                is_fine |= later || (used[0] == least[0] && used >= least);
            }
            if !is_fine {
                found.push(format!("{id}: {what}; patched in {patched}"));
            }
        }
        Ok(found)
    }

    /// The version in the lock file.
    fn locked(name: &str) -> Result<Version> {
        let entry = format!("name = \"{name}\"\nversion = \"");
        let (_, rest) = LOCK.split_once(&entry).context("it is not locked")?;
        version(rest.split('"').next().unwrap_or_default())
    }

    #[test]
    fn the_version_of_wasmtime_has_no_known_advisory() -> Result<()> {
        let concern = concerning(LIST, locked("wasmtime")?)?;
        assert!(
            concern.is_empty(),
            "raise wasmtime in host/policy/Cargo.toml to a patched version:\n{}",
            concern.join("\n")
        );
        Ok(())
    }

    #[test]
    fn older_and_unlisted_versions_are_refused() -> Result<()> {
        let count = |text: &str| anyhow::Ok(concerning(LIST, version(text)?)?.len());
        assert_eq!(count("48.0.6")?, 2, "two were patched in 48.0.7");
        assert!(count("48.0.2")? > 5);
        assert_eq!(count("51.0.0")?, 2, "a line that nobody has looked at");
        Ok(())
    }

    #[test]
    fn the_list_is_dated() {
        assert!(
            LIST.lines()
                .next()
                .unwrap_or_default()
                .contains("looked at on 20")
        );
    }
}
