//! Computes the actions that lead from the running policies to the configured ones: a pure
//! function.

use longshore_policy::Terms;

use crate::config::Mode;

/// What makes a version another one: the component, its settings, and what it may do.
#[derive(Clone, PartialEq, Debug)]
pub struct Fingerprint {
    /// SHA-256 of the component, in hex.
    pub digest: String,
    /// Its settings, TOML.
    pub settings: String,
    /// What the operator lets it do.
    pub terms: Terms,
}

/// The NodePools of a policy, and its mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicySlot {
    /// Its name in the configuration.
    pub name: String,
    /// Whether its answers count, are compared, or take over step by step.
    pub mode: Mode,
    /// NodePools; `None` for all.
    pub nodepools: Option<Vec<String>>,
}

/// A running policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Running {
    pub slot: PolicySlot,
    /// The version that runs; none if none could ever be loaded.
    pub version: Option<Fingerprint>,
    /// The version that was refused last.
    pub refused: Option<Fingerprint>,
}

/// A policy as the files have it.
#[derive(Clone, PartialEq, Debug)]
pub struct DesiredPolicy {
    pub slot: PolicySlot,
    /// Its version; none if a file cannot be read.
    pub version: Option<Fingerprint>,
    /// Whether it is being fetched.
    pub coming: bool,
}

/// What to do for one wanted policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The version that runs is the wanted one.
    Keep,
    /// Make the wanted version ready.
    Load,
    /// It was refused before and has not changed since.
    Refused,
    /// There is nothing to load.
    Unreadable,
    /// There is nothing to load yet: what runs goes on.
    Coming,
    /// Its mode is [`Mode::Off`].
    Off,
}

/// All that is to be done.
#[derive(PartialEq, Eq, Debug)]
pub struct Change {
    /// One step for each wanted policy, in order.
    pub steps: Vec<Step>,
    /// The running policy of the same name, for each wanted one.
    pub from: Vec<Option<usize>>,
    /// Names of those that go.
    pub gone: Vec<String>,
    /// Whether slots differ in number, order, mode or NodePools, whatever their policies.
    pub slots: bool,
}

pub fn decide(running: &[Running], wanted: &[DesiredPolicy]) -> Change {
    let from: Vec<_> = wanted
        .iter()
        .map(|w| running.iter().position(|r| r.slot.name == w.slot.name))
        .collect();
    let step = |(wanted, from): (&DesiredPolicy, &Option<usize>)| {
        let old = from.map(|at| &running[at]);
        match &wanted.version {
            _ if wanted.slot.mode == Mode::Off => Step::Off,
            None if wanted.coming => Step::Coming,
            None => Step::Unreadable,
            version if old.is_some_and(|old| old.version == *version) => Step::Keep,
            version if old.is_some_and(|old| old.refused == *version) => Step::Refused,
            Some(_) => Step::Load,
        }
    };
    let stays = |r: &&Running| wanted.iter().any(|w| w.slot.name == r.slot.name);
    Change {
        steps: wanted.iter().zip(&from).map(step).collect(),
        gone: running
            .iter()
            .filter(|r| !stays(r))
            .map(|r| r.slot.name.clone())
            .collect(),
        slots: !running
            .iter()
            .map(|r| &r.slot)
            .eq(wanted.iter().map(|w| &w.slot)),
        from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(name: &str) -> PolicySlot {
        PolicySlot {
            name: name.into(),
            mode: Mode::Enforce,
            nodepools: None,
        }
    }

    fn version(digest: &str, settings: &str) -> Option<Fingerprint> {
        Some(Fingerprint {
            digest: digest.into(),
            settings: settings.into(),
            terms: Terms::default(),
        })
    }

    fn running(name: &str, digest: &str) -> Running {
        Running {
            slot: slot(name),
            version: version(digest, ""),
            refused: None,
        }
    }

    fn wanted(name: &str, digest: &str) -> DesiredPolicy {
        DesiredPolicy {
            slot: slot(name),
            version: version(digest, ""),
            coming: false,
        }
    }

    #[test]
    fn the_same_files_change_nothing() {
        let change = decide(
            &[running("a", "1"), running("b", "2")],
            &[wanted("a", "1"), wanted("b", "2")],
        );
        assert_eq!(
            (change.steps, change.gone, change.slots),
            (vec![Step::Keep; 2], vec![], false)
        );
    }

    #[test]
    fn another_component_or_other_settings_are_loaded() {
        let one = [running("a", "1")];
        assert_eq!(decide(&one, &[wanted("a", "2")]).steps, [Step::Load]);
        let other_settings = DesiredPolicy {
            slot: slot("a"),
            version: version("1", "x = 1"),
            coming: false,
        };
        assert_eq!(decide(&one, &[other_settings]).steps, [Step::Load]);
        assert_eq!(decide(&[], &[wanted("a", "1")]).steps, [Step::Load]);
    }

    #[test]
    fn what_was_refused_is_not_tried_again_before_it_changes() {
        let refused = [Running {
            refused: version("2", ""),
            ..running("a", "1")
        }];
        assert_eq!(decide(&refused, &[wanted("a", "2")]).steps, [Step::Refused]);
        assert_eq!(decide(&refused, &[wanted("a", "3")]).steps, [Step::Load]);
        assert_eq!(
            decide(&refused, &[wanted("a", "1")]).steps,
            [Step::Keep],
            "back to what runs"
        );
    }

    #[test]
    fn what_is_being_fetched_changes_nothing_yet() {
        let coming = DesiredPolicy {
            slot: slot("a"),
            version: None,
            coming: true,
        };
        let change = decide(&[running("a", "1")], &[coming]);
        assert_eq!((change.steps, change.slots), (vec![Step::Coming], false));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_nothing_to_load() {
        let unreadable = DesiredPolicy {
            slot: slot("a"),
            version: None,
            coming: false,
        };
        assert_eq!(
            decide(&[running("a", "1")], std::slice::from_ref(&unreadable)).steps,
            [Step::Unreadable]
        );
        let never = [Running {
            version: None,
            ..running("a", "1")
        }];
        assert_eq!(decide(&never, &[unreadable]).steps, [Step::Unreadable]);
    }

    #[test]
    fn what_is_turned_off_is_not_loaded_and_comes_back_anew() {
        let mut off = wanted("a", "2");
        off.slot.mode = Mode::Off;
        let change = decide(&[running("a", "1")], std::slice::from_ref(&off));
        assert_eq!((change.steps, change.slots), (vec![Step::Off], true));
        let mut gone = Running {
            version: None,
            ..running("a", "1")
        };
        gone.slot.mode = Mode::Off;
        let change = decide(&[gone], &[wanted("a", "1")]);
        assert_eq!((change.steps, change.slots), (vec![Step::Load], true));
    }

    #[test]
    fn order_mode_and_nodepools_change_slots_without_loading() {
        let two = [running("a", "1"), running("b", "2")];
        let swapped = decide(&two, &[wanted("b", "2"), wanted("a", "1")]);
        assert_eq!(
            (swapped.slots, swapped.from),
            (true, vec![Some(1), Some(0)])
        );
        assert_eq!(swapped.steps, [Step::Keep; 2]);
        let mut shadow = [wanted("a", "1"), wanted("b", "2")];
        shadow[1].slot.mode = Mode::Shadow;
        assert!(decide(&two, &shadow).slots);
        shadow[1].slot = PolicySlot {
            nodepools: Some(vec!["x".into()]),
            ..slot("b")
        };
        assert!(decide(&two, &shadow).slots);
        let fewer = decide(&two, &[wanted("b", "2")]);
        assert_eq!((fewer.slots, fewer.gone), (true, vec!["a".to_owned()]));
    }
}
