//! `prefer` of a `[[policy]]`: families, generations and architectures in the order in which they are
//! wanted, and what a step down that order may save. It becomes an expression of `cel`.
//!
//! cost of an offering = cost before × (1 + tolerance) ^ steps
//!
//! Steps are those of its places in each list, from 0 on; what a list does not name comes after all that
//! it names.

use super::reader::{Table, percent};

/// The key of a `[[policy]]`.
pub(super) const KEY: &str = "prefer";

/// How much dearer what is wanted may be, without `tolerance`.
const DEFAULT_TOLERANCE: f64 = 0.1;
/// Most entries of a list: three lists have two operators for each, and an expression has 256.
const MAX_ENTRIES: usize = 24;

/// A list: its key, and the condition that an offering is what an entry names.
type List = (&'static str, fn(&str) -> String);

const LISTS: [List; 3] = [
    ("families", |name| {
        format!("instance_type.startsWith({})", quoted(&format!("{name}.")))
    }),
    ("generations", |name| {
        let label = "labels['karpenter.k8s.aws/instance-generation']";
        format!("{label} == {}", quoted(name))
    }),
    ("architectures", |name| {
        format!("architecture == {}", quoted(name))
    }),
];

/// Reads it as an expression; nothing if it is not there, or has faults.
pub(super) fn read(table: &mut Table) -> Option<String> {
    let mut prefer = table.table(KEY)?;
    let tolerance = tolerance(&mut prefer);
    let lists = LISTS.map(|(key, is)| Some((list(&mut prefer, key)?, is)));
    let none = lists.iter().all(Option::is_none) && !LISTS.iter().any(|(key, _)| prefer.has(key));
    prefer.finish();
    if none {
        let message = format!(
            "`{KEY}` prefers nothing: expected one of `families`, `generations`, `architectures`"
        );
        let hint = "write it as { architectures = [\"arm64\", \"amd64\"], tolerance = \"10%\" }";
        table.fault_at(KEY, message, hint.into());
    }
    let factors: Vec<String> = lists
        .into_iter()
        .flatten()
        .map(|(names, is)| factor(&names, is, tolerance))
        .collect();
    (!factors.is_empty()).then(|| format!("cost * {}", factors.join(" * ")))
}

fn tolerance(prefer: &mut Table) -> f64 {
    const TOLERANCE: &str = "tolerance";
    let Some(text) = prefer.text(TOLERANCE) else {
        return DEFAULT_TOLERANCE;
    };
    let share = percent(text).filter(|share| (0.001..=1.0).contains(share));
    if share.is_none() {
        let message = format!("`{TOLERANCE}` is {text:?}: expected a share of 0.1% to 100%");
        let hint = "write it as \"10%\": what is wanted may be a tenth dearer than the next".into();
        prefer.fault_at(TOLERANCE, message, hint);
    }
    share.unwrap_or(DEFAULT_TOLERANCE)
}

/// The names of a list.
fn list(prefer: &mut Table, key: &str) -> Option<Vec<String>> {
    let names = prefer.texts(key)?;
    let problem = match names.len() {
        0 => "is empty: expected names in the order in which they are wanted".to_owned(),
        count if count > MAX_ENTRIES => {
            format!("has {count} entries: expected at most {MAX_ENTRIES}")
        }
        _ => {
            let twice = |at: &usize| names[..*at].contains(&names[*at]);
            match (0..names.len()).find(twice) {
                Some(at) => format!("has {:?} twice: expected each name once", names[at]),
                None => return Some(names),
            }
        }
    };
    let hint = "the first is wanted most; what is not named comes last".into();
    prefer.fault_at(key, format!("`{key}` {problem}"), hint);
    None
}

/// `(is first ? 1 : is second ? 1.1 : 1.21)`.
fn factor(names: &[String], is: fn(&str) -> String, tolerance: f64) -> String {
    // Rounded, so that people can read it.
    let step = |steps: usize| ((1.0 + tolerance).powi(steps as i32) * 1e6).round() / 1e6;
    let choices = names.iter().enumerate();
    let choices: String = choices
        .map(|(steps, name)| format!("{} ? {} : ", is(name), step(steps)))
        .collect();
    format!("({choices}{})", step(names.len()))
}

/// A text of an expression.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect;

    use crate::config::parse;

    fn read(prefer: &str) -> Result<String, String> {
        let text = format!("[[policy]]\nname = 'a'\nprefer = {prefer}\n");
        let config = parse(Path::new("longshore.toml"), &text).map_err(|faults| {
            let shown: Vec<String> = faults.iter().map(|fault| format!("{fault}\n")).collect();
            shown.concat()
        })?;
        let expression = config.policies[0].settings["expression"].as_str();
        Ok(expression.unwrap().to_owned())
    }

    #[test]
    fn each_list_is_a_factor_and_each_step_the_tolerance() {
        expect!["cost * (architecture == 'arm64' ? 1 : architecture == 'amd64' ? 1.1 : 1.21)"]
            .assert_eq(&read("{ architectures = ['arm64', 'amd64'] }").unwrap());
        expect![[r#"cost * (instance_type.startsWith('m7g.') ? 1 : instance_type.startsWith('m\'6g.') ? 1.05 : 1.1025) * (labels['karpenter.k8s.aws/instance-generation'] == '8' ? 1 : 1.05)"#]].assert_eq(
            &read("{ families = ['m7g', \"m'6g\"], generations = ['8'], tolerance = '5%' }")
                .unwrap(),
        );
    }

    #[test]
    fn lists_have_entries_and_a_tolerance_is_a_share() {
        let faults = |prefer: &str| read(prefer).unwrap_err();
        expect![[r#"
            longshore.toml:3:10: `prefer` prefers nothing: expected one of `families`, `generations`, `architectures`
                hint: write it as { architectures = ["arm64", "amd64"], tolerance = "10%" }
        "#]].assert_eq(&faults("{}"));
        expect![[r#"
            longshore.toml:3:23: `families` is empty: expected names in the order in which they are wanted
                hint: the first is wanted most; what is not named comes last
        "#]].assert_eq(&faults("{ families = [] }"));
        expect![[r#"
            longshore.toml:3:28: `architectures` has "arm64" twice: expected each name once
                hint: the first is wanted most; what is not named comes last
        "#]]
        .assert_eq(&faults("{ architectures = ['arm64', 'arm64'] }"));
        expect![[r#"
            longshore.toml:3:10: `prefer` prefers nothing: expected one of `families`, `generations`, `architectures`
                hint: write it as { architectures = ["arm64", "amd64"], tolerance = "10%" }
            longshore.toml:3:12: unknown key `family` in [policy.prefer]: expected one of `architectures`, `families`, `generations`, `tolerance`
                hint: did you mean `families`?
            longshore.toml:3:42: `tolerance` is a number: expected a string
                hint: write it in quotes
        "#]].assert_eq(&faults("{ family = ['m7g'], tolerance = 0.1 }"));
        expect![[r#"
            longshore.toml:3:44: `tolerance` is "10": expected a share of 0.1% to 100%
                hint: write it as "10%": what is wanted may be a tenth dearer than the next
        "#]]
        .assert_eq(&faults("{ families = ['m7g'], tolerance = '10' }"));
        let many: Vec<String> = (0..25).map(|number| format!("'m{number}'")).collect();
        expect![[r#"
            longshore.toml:3:23: `families` has 25 entries: expected at most 24
                hint: the first is wanted most; what is not named comes last
        "#]]
        .assert_eq(&faults(&format!("{{ families = [{}] }}", many.join(", "))));
    }

    #[test]
    fn three_full_lists_are_an_expression() {
        let list = |of: &str| {
            let names: Vec<String> = (10..34).map(|number| format!("'{of}{number}'")).collect();
            names.join(", ")
        };
        let all = format!(
            "{{ families = [{}], generations = [{}], architectures = [{}] }}",
            list("m"),
            list(""),
            list("arch")
        );
        assert!(read(&all).is_ok(), "{all}");
    }
}
