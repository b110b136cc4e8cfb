//! What a component may be asked is in the operator's file: versions that want more get no more.

use crate::reload::guest::{Wants, Way, guest, guest_that_wants};
use crate::scene::Scene;
use longshore_live::policies::NoticeKind;

const ONE: &str = "[[policy]]\nname = 'one'\npath = 'one.wasm'\n";

fn scene(name: &str, more: &str, component: &[u8]) -> Scene {
    let config = format!("{ONE}{more}");
    Scene::new(
        name,
        &[
            ("longshore.toml", config.as_bytes()),
            ("one.wasm", component),
        ],
    )
}

fn wants(version: &str, cost: f64, exports: &[&str], signals: &[&str]) -> Vec<u8> {
    let wants = Wants { exports, signals };
    guest_that_wants(version, Way::Costs(cost), &wants)
}

#[test]
fn a_scorer_that_exports_bootstrap_in_its_next_version_is_not_asked_for_it() {
    let mut scene = scene("grants-bootstrap", "", &guest("1.4.2", Way::Costs(1.0)));
    assert_eq!(scene.cost(), 1.0);
    scene.kinds();
    scene.rename("one.wasm", &wants("1.4.3", 2.0, &["bootstrap"], &[]));
    scene.settle();
    assert_eq!(scene.cost(), 2.0, "its costs are granted");
    assert!(
        scene.manager.boots().is_empty(),
        "what nodes boot with is not"
    );
    assert_eq!(scene.policy("one").not_granted, ["bootstrap"]);
    let notices = scene.manager.notices();
    let said = notices
        .iter()
        .find(|n| n.kind == NoticeKind::PolicyNotGranted);
    let said = said.expect("it is said");
    assert_eq!(
        said.message,
        "policy one: it exports bootstrap, which is not asked"
    );
    assert_eq!(
        said.hint,
        "if that is meant, add \"bootstrap\" to `grants` of its entry; `bootstrap` is root on every \
         node that boots with it"
    );
}

#[test]
fn a_component_that_is_granted_nothing_that_it_exports_is_refused_with_a_hint() {
    let scene = scene(
        "grants-nothing",
        "grants = ['consolidation']\n",
        &guest("1.0.0", Way::Costs(1.0)),
    );
    assert_eq!(scene.cost(), scene.price());
    assert!(
        scene.error("one").ends_with(
            "it exports scorer, and its `grants` are consolidation: it would be asked nothing"
        ),
        "{}",
        scene.error("one")
    );
}

#[test]
fn a_version_that_reads_another_signal_waits_for_consent() {
    let first = wants("1.0.0", 1.0, &[], &["load"]);
    let mut scene = scene("grants-signal", "", &first);
    assert_eq!(scene.cost(), 1.0);
    let second = wants("1.1.0", 2.0, &[], &["load", "salaries"]);
    scene.rename("one.wasm", &second);
    scene.settle();
    assert_eq!(scene.cost(), 1.0, "the old version goes on");
    assert!(
        scene.error("one").ends_with(
            "it wants more than the version that runs: signal salaries; it waits for consent"
        ),
        "{}",
        scene.error("one")
    );
    assert!(scene.kinds().contains(&NoticeKind::PolicyRefused));
    // Consent.
    let config = format!("{ONE}signals = ['load', 'salaries']\n");
    scene.edit("longshore.toml", config.as_bytes());
    scene.settle();
    assert_eq!(scene.cost(), 2.0);
    assert_eq!(scene.error("one"), "");
    // The file leaves one out: it is withheld, and that is shown.
    scene.edit(
        "longshore.toml",
        format!("{ONE}signals = ['load']\n").as_bytes(),
    );
    scene.settle();
    assert_eq!(scene.cost(), 2.0);
    assert_eq!(scene.policy("one").withheld_signals, ["salaries"]);
}

#[test]
fn an_export_that_a_toolchain_left_behind_counts_for_nothing() {
    let mut scene = scene("grants-init", "", &guest("1.0.0", Way::Costs(1.0)));
    let init = wants("1.0.1", 2.0, &["init"], &[]);
    scene.rename("one.wasm", &init);
    scene.settle();
    assert_eq!(scene.cost(), 2.0);
    assert!(scene.policy("one").not_granted.is_empty());
    assert!(!scene.kinds().contains(&NoticeKind::PolicyNotGranted));
}

#[test]
fn a_changed_limit_of_discounts_is_another_version() {
    let mut scene = scene("grants-discount", "", &guest("1.0.0", Way::Costs(0.0)));
    let price = scene.price();
    assert!((scene.cost() / (price * 0.1) - 1.0).abs() < 1e-4);
    let notices = scene.manager.notices();
    let notices = notices
        .iter()
        .filter(|n| n.kind == NoticeKind::PolicyCostsRaised);
    assert_eq!(notices.count(), 1);
    assert!(scene.policy("one").stats.raised > 0);
    scene.edit(
        "longshore.toml",
        format!("{ONE}max-discount = '100%'\n").as_bytes(),
    );
    scene.settle();
    assert_eq!(scene.cost(), 0.0);
}
