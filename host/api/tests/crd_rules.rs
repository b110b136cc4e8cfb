//! Every keyword and rule of the definitions accepts what it should and refuses what it should.

#[path = "crd/stand_in.rs"]
mod stand_in;
use std::collections::{BTreeMap, BTreeSet};

use stand_in::StandIn;

fn stand_ins() -> BTreeMap<String, StandIn> {
    let kind = |definition: &_| {
        let definition: &longshore_api::crd::definition::Definition = definition;
        definition.json()["spec"]["names"]["kind"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    crate::table::definitions()
        .iter()
        .map(|definition| (kind(definition), StandIn::new(definition)))
        .collect()
}

#[test]
fn the_table_is_right_about_what_is_accepted_and_why_not() {
    let stand_ins = stand_ins();
    let mut wrong = Vec::new();
    for case in crate::table::cases() {
        let refusals = stand_ins[&case.kind].refusals(&case.result(), case.before());
        let right = match &case.because {
            None => refusals.is_empty(),
            Some(because) => refusals
                .iter()
                .any(|refusal| refusal.because.contains(because.as_str())),
        };
        if !right {
            wrong.push(format!(
                "{}\n  expected {:?}\n  found {refusals:?}",
                case.what, case.because
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_keyword_and_rule_has_both_kinds_of_example() {
    let stand_ins = stand_ins();
    let mut never_refused: BTreeSet<String> = BTreeSet::new();
    for (kind, stand_in) in &stand_ins {
        never_refused.extend(
            stand_in
                .parts()
                .into_iter()
                .map(|part| format!("{kind} {part}")),
        );
    }
    let mut never_accepted = never_refused.clone();
    assert!(
        never_refused.len() > 150,
        "only {} parts",
        never_refused.len()
    );
    for case in crate::table::cases() {
        let stand_in = &stand_ins[&case.kind];
        match &case.because {
            Some(because) => {
                let refusals = stand_in.refusals(&case.result(), case.before());
                for refusal in refusals
                    .iter()
                    .filter(|refusal| refusal.because.contains(because.as_str()))
                {
                    never_refused.remove(&format!("{} {}", case.kind, refusal.by));
                }
            }
            None => {
                for part in stand_in.looking_at(&case.result(), case.before()) {
                    never_accepted.remove(&format!("{} {part}", case.kind));
                }
            }
        }
    }
    assert!(
        never_refused.is_empty(),
        "no refused example for {never_refused:#?}"
    );
    assert!(
        never_accepted.is_empty(),
        "no accepted example for {never_accepted:#?}"
    );
}
