//! What a component says about itself: whether it can be, and can be shown.

use semver::Version;

use super::Refusal;
use crate::call::answer::{About, SignalUse, number};
use crate::guest_text::{cut, printable};
use crate::terms::Terms;

/// Most signals that a policy declares, and the longest name of one.
const MAX_SIGNALS: usize = 64;
const MAX_SIGNAL_BYTES: usize = 128;

/// Most annotations, and the longest of a key or value.
const MAX_ANNOTATIONS: usize = 32;
const MAX_ANNOTATION_BYTES: usize = 1024;
/// The longest age of a signal, in seconds: a hundred years.
const MAX_AGE: f64 = 3.2e9;

/// Checks what a component says of itself: name, version, signals, annotations, schema.
pub(super) fn check(about: &About) -> Result<(), Refusal> {
    let wrong = |problem: String| Err(Refusal::About { problem });
    let name_fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if about.name.is_empty() || about.name.len() > 63 || !about.name.chars().all(name_fits) {
        return wrong(format!(
            "name {:?}: expected 1 to 63 lower case letters, digits and `-`",
            shortened(&about.name)
        ));
    }
    if about.version.len() > 63 || Version::parse(&about.version).is_err() {
        return wrong(format!(
            "version {:?}: expected a semantic version, such as 1.4.0",
            shortened(&about.version)
        ));
    }
    let fits = |name: &str| (1..=MAX_SIGNAL_BYTES).contains(&name.len()) && printable(name) == name;
    let mut names = about.signals.iter().map(|of| of.name.as_str());
    if let Some(name) = names.find(|name| !fits(name)) {
        return wrong(format!(
            "signal {:?}: expected a name of 1 to {MAX_SIGNAL_BYTES} bytes that can be printed",
            shortened(name)
        ));
    }
    if about.signals.len() > MAX_SIGNALS {
        return wrong(format!(
            "it declares {} signals; expected at most {MAX_SIGNALS}",
            about.signals.len()
        ));
    }
    let aged = |of: &&SignalUse| !(0.0..=MAX_AGE).contains(&of.max_age);
    if let Some(of) = about.signals.iter().find(aged) {
        return wrong(format!(
            "signal `{}`: max-age is {}; expected 0 to {MAX_AGE} seconds",
            of.name,
            number(of.max_age)
        ));
    }
    let mut texts = about
        .annotations
        .iter()
        .flat_map(|(key, value)| [key, value]);
    let too_long = texts.any(|text| text.len() > MAX_ANNOTATION_BYTES);
    if about.annotations.len() > MAX_ANNOTATIONS || too_long {
        return wrong(format!(
            "it has {} annotations; expected at most {MAX_ANNOTATIONS}, of at most \
             {MAX_ANNOTATION_BYTES} bytes each",
            about.annotations.len()
        ));
    }
    if !about.settings_schema.trim().is_empty()
        && let Err(error) = serde_json::from_str::<serde_json::Value>(&about.settings_schema)
    {
        return wrong(format!("its settings schema is not JSON: {error}"));
    }
    Ok(())
}

/// Signals that a policy reads: those that it declares. One whose settings name them declares none, and
/// reads what its terms name.
pub(crate) fn signal_uses(about: &About, terms: &Terms) -> Vec<SignalUse> {
    let as_granted = ("signals".to_owned(), "as-granted".to_owned());
    match &terms.signals {
        Some(named) if about.annotations.contains(&as_granted) => {
            let plain = |name: &String| SignalUse {
                name: name.clone(),
                required: false,
                max_age: 0.0,
            };
            named.iter().map(plain).collect()
        }
        _ => about.signals.clone(),
    }
}

fn shortened(text: &str) -> String {
    cut(text.to_owned(), 80)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::DeclaredSignals;

    fn signal(name: &str, max_age: f64) -> SignalUse {
        SignalUse {
            name: name.into(),
            required: false,
            max_age,
        }
    }

    fn about() -> About {
        About {
            name: "price".into(),
            version: "1.4.0".into(),
            signals: vec![signal("carbon-intensity", 0.0)],
            ..About::default()
        }
    }

    fn problem(of: About) -> String {
        check(&of).unwrap_err().to_string()
    }

    #[test]
    fn versions_are_semantic() {
        let is_semantic = |version: &str| Version::parse(version).is_ok();
        for good in [
            "0.1.0",
            "10.20.30",
            "1.0.0-rc.1",
            "1.0.0+build.5",
            "1.0.0-a-b+c-d",
        ] {
            assert!(is_semantic(good), "{good}");
        }
        for bad in [
            "", "1", "1.0", "1.0.0.0", "01.0.0", "v1.0.0", "1.0.0-", "1.0.0-ü", "1.0.0 ",
        ] {
            assert!(!is_semantic(bad), "{bad}");
        }
        let with = |version: &str| About {
            version: version.into(),
            ..about()
        };
        assert!(check(&with("1.4.0")).is_ok());
        assert_eq!(
            problem(with("latest\u{1b}[2J")),
            "what it says about itself: version \"latest[2J\": expected a semantic version, such as \
             1.4.0"
        );
    }

    #[test]
    fn ages_and_annotations_have_bounds() {
        let aged = |max_age: f64| About {
            signals: vec![signal("carbon", max_age)],
            ..about()
        };
        assert!(check(&aged(0.0)).is_ok() && check(&aged(3600.0)).is_ok());
        assert_eq!(
            problem(aged(f64::NAN)),
            "what it says about itself: signal `carbon`: max-age is NaN; expected 0 to 3200000000 \
             seconds"
        );
        let annotations = vec![("a".to_owned(), "x".repeat(1025))];
        let long = About {
            annotations,
            ..about()
        };
        assert!(problem(long).contains("it has 1 annotations"));
    }

    #[test]
    fn a_policy_sees_signals_that_it_declares_or_whose_names_it_leaves_to_the_operator() {
        let terms = |named: Option<&[&str]>| Terms {
            signals: named.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            ..Terms::default()
        };
        let sees = |about: &About, named: Option<&[&str]>| -> Vec<&str> {
            let terms = terms(named);
            let uses = signal_uses(about, &terms);
            let declared = DeclaredSignals::of(&uses, terms.signals.as_ref());
            let all = ["carbon-intensity", "other"].into_iter();
            all.filter(|name| declared.may_read(name)).collect()
        };
        let declares = about();
        assert_eq!(sees(&declares, None), ["carbon-intensity"]);
        assert_eq!(sees(&declares, Some(&["other"])), [""; 0]);
        let leaves = About {
            signals: vec![],
            annotations: vec![("signals".into(), "as-granted".into())],
            ..about()
        };
        assert_eq!(sees(&leaves, None), [""; 0], "nothing without a grant");
        assert_eq!(sees(&leaves, Some(&["other"])), ["other"]);
    }

    #[test]
    fn names_of_signals_can_be_printed() {
        let with = |names: Vec<String>| About {
            signals: names.iter().map(|name| signal(name, 0.0)).collect(),
            ..about()
        };
        assert_eq!(
            problem(with(vec!["car\u{202e}bon".into()])),
            "what it says about itself: signal \"carbon\": expected a name of 1 to 128 bytes that can \
             be printed"
        );
        let many = (0..65).map(|number| number.to_string()).collect();
        let said = problem(with(many));
        assert!(
            said.ends_with("it declares 65 signals; expected at most 64"),
            "{said}"
        );
    }
}
