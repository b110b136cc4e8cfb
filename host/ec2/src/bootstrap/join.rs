//! The command with which a script joins its node to the cluster, taken apart.

use std::collections::BTreeMap;

/// A call of a shell script with options.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Call {
    /// The first word that belongs to no option.
    pub positional: Option<String>,
    /// Values of options, by name without dashes.
    pub named: BTreeMap<String, String>,
}

/// The last call of `program` in a shell script, by its file name. Lines that end in a backslash go
/// on with the next. The call must stand alone on its line and be spelled out: variables are not
/// followed. Fails on quotes that are not closed.
pub(super) fn shell(script: &str, program: &str) -> Result<Option<Call>, String> {
    let joined = script.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut last = None;
    for line in joined.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if first.rsplit('/').next() != Some(program) {
            continue;
        }
        let words = shlex::split(line)
            .ok_or_else(|| format!("the call of {program} has a quote that is not closed"))?;
        let (mut call, mut words) = (Call::default(), words.into_iter().skip(1));
        while let Some(word) = words.next() {
            match word.strip_prefix("--") {
                Some(option) => {
                    let (name, value) = match option.split_once('=') {
                        Some((name, value)) => (name.to_owned(), value.to_owned()),
                        None => (option.to_owned(), words.next().unwrap_or_default()),
                    };
                    call.named.insert(name, value);
                }
                None => drop(call.positional.get_or_insert(word)),
            }
        }
        last = Some(call);
    }
    Ok(last)
}

/// Parameters of the last line of a PowerShell script that has `parameter`, by name without dash.
pub(super) fn power_shell(
    script: &str,
    parameter: &str,
) -> Result<Option<BTreeMap<String, String>>, String> {
    let joined = script.replace("`\r\n", " ").replace("`\n", " ");
    let Some(line) = joined.lines().rfind(|line| line.contains(parameter)) else {
        return Ok(None);
    };
    let words = power_shell_words(line)
        .ok_or("the call of Start-EKSBootstrap.ps1 has a quote that is not closed")?;
    let mut named = BTreeMap::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if let Some(name) = word.strip_prefix('-') {
            named.insert(name.to_owned(), words.next().unwrap_or_default());
        }
    }
    Ok(Some(named))
}

/// Words of a line: spaces part them, quotes of both kinds hold them together, and a quote that is
/// doubled inside of quotes stands for itself. `None` if a quote is not closed.
fn power_shell_words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match quote {
            Some(q) if c == q && chars.peek() == Some(&q) => {
                chars.next();
                word.get_or_insert_default().push(q);
            }
            Some(q) if c == q => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// The words of a command line, as systemd takes them: spaces part them, and quotes hold them
/// together.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let words = shlex::split(text).ok_or("the kubelet's arguments have a quote not closed")?;
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_a_shell_script_is_taken_apart() {
        let script = "#!/bin/sh\n/etc/eks/bootstrap.sh old\n/etc/eks/bootstrap.sh 'demo' --apiserver-endpoint \
                      'https://e' \\\n--kubelet-extra-args '--max-pods=5 --x=\"a b\"'\necho done\n";
        let call = shell(script, "bootstrap.sh").unwrap().unwrap();
        assert_eq!(call.positional.as_deref(), Some("demo"));
        assert_eq!(call.named["apiserver-endpoint"], "https://e");
        let inner = words(&call.named["kubelet-extra-args"]).unwrap();
        assert_eq!(inner, ["--max-pods=5", "--x=a b"]);
        assert_eq!(
            shell("#!/bin/sh\necho bootstrap.sh\n", "bootstrap.sh"),
            Ok(None)
        );
        assert!(shell("bootstrap.sh 'open\n", "bootstrap.sh").is_err());
    }

    #[test]
    fn a_call_in_power_shell_is_taken_apart() {
        let line = "& $File -EKSClusterName 'it''s' -KubeletExtraArgs '--a=\"b\" --c=d'\n";
        let call = power_shell(line, "-EKSClusterName").unwrap().unwrap();
        assert_eq!(call["EKSClusterName"], "it's");
        assert_eq!(call["KubeletExtraArgs"], "--a=\"b\" --c=d");
        assert!(power_shell("-EKSClusterName 'open", "-EKSClusterName").is_err());
        assert_eq!(power_shell("echo", "-EKSClusterName"), Ok(None));
    }
}
