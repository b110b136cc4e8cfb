use super::super::{Fault, Kept};
use super::*;

fn terms() -> Terms {
    let step = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Terms {
        order: vec![step(&["dev"]), step(&["batch", "ci"]), step(&[ALL])],
        hold: 1800,
        promote: Promotion::Auto,
        max_cost_increase: 0.1,
    }
}

/// A canary in virtual time.
struct Case {
    terms: Terms,
    kept: Kept,
    now: i64,
}

const VERSION: (&str, &str, bool) = ("new", "old", false);

impl Case {
    fn new(terms: Terms) -> Self {
        Case::of(terms, VERSION)
    }

    fn of(terms: Terms, version: (&str, &str, bool)) -> Self {
        let kept = Kept::open(None, version, &terms, 0);
        let mut case = Case {
            terms,
            kept,
            now: 0,
        };
        case.write();
        case
    }

    fn booting() -> Self {
        Case::of(terms(), ("new", "old", true))
    }

    fn write(&mut self) {
        let wanted = self.kept.wanted().clone();
        let text = serde_json::to_string(&wanted).unwrap();
        assert_eq!(serde_json::from_str::<Rollout>(&text).unwrap(), wanted);
        self.kept.wrote(wanted);
    }

    fn sees(&mut self, facts: Facts) -> Decision {
        self.kept.observe(&self.terms, &facts, self.now)
    }

    /// So many good rounds, a minute each; the last decision.
    fn rounds(&mut self, rounds: usize) -> Decision {
        let mut last = Decision::Stay(Vec::new());
        for _ in 0..rounds {
            self.now += 60;
            last = self.sees(asked());
        }
        last
    }

    /// Another process that knows what is written down.
    fn restart(&mut self) {
        let written = self.kept.written_for_tests();
        self.kept = Kept::open(written, VERSION, &self.terms, self.now);
    }

    fn serves(&self, node_pool: &str) -> bool {
        self.kept.obeyed().has(node_pool)
    }
}

fn asked() -> Facts {
    Facts {
        asked: true,
        ..Facts::default()
    }
}

fn fault(fault: Fault) -> Facts {
    Facts {
        fault: Some(fault),
        ..asked()
    }
}

fn node(node: NodeFact) -> Facts {
    Facts {
        node: Some(node),
        ..Facts::default()
    }
}

fn compared(usd: (f64, f64), left: (u64, u64)) -> Facts {
    Facts {
        compared: Compared {
            rounds: 1,
            usd,
            left,
        },
        ..asked()
    }
}

fn launches(old: (u64, u64), new: (u64, u64)) -> Facts {
    let of = |(all, failed)| Launched { all, failed };
    Facts {
        launches: Launches {
            old: of(old),
            new: of(new),
        },
        ..Facts::default()
    }
}

#[test]
fn a_good_version_takes_over_step_by_step() {
    let mut case = Case::new(terms());
    assert!(case.serves("dev") && !case.serves("batch"));
    let waits = vec![Missing::Hold(60)];
    assert_eq!(case.rounds(29), Decision::Stay(waits));
    assert_eq!(case.rounds(1), Decision::Advance { step: 1 });
    assert!(
        !case.serves("batch"),
        "what is not written down is not obeyed"
    );
    case.write();
    assert!(case.serves("batch") && case.serves("dev") && !case.serves("web"));
    assert_eq!(case.rounds(30), Decision::Advance { step: 2 });
    case.write();
    assert!(case.serves("web"));
    assert_eq!(case.rounds(30), Decision::Promote);
    case.write();
    assert_eq!(case.kept.obeyed(), Obeyed::All);
}

#[test]
fn a_step_lasts_its_hold_and_twenty_rounds() {
    let mut case = Case::new(terms());
    case.now = 10_000;
    assert_eq!(
        case.sees(asked()),
        Decision::Stay(vec![Missing::Rounds(19)])
    );
    for _ in 0..18 {
        case.sees(asked());
    }
    let idle = Facts::default();
    let waits = Decision::Stay(vec![Missing::Rounds(1)]);
    assert_eq!(case.sees(idle), waits, "it was not asked");
    assert_eq!(case.sees(asked()), Decision::Advance { step: 1 });
}

#[test]
fn with_ask_each_step_waits_for_an_operator() {
    let mut case = Case::new(Terms {
        promote: Promotion::Ask,
        ..terms()
    });
    let consent = Facts {
        request: Some(Request::Promote),
        ..Facts::default()
    };
    let waits = Decision::Stay(vec![Missing::Hold(1800), Missing::Rounds(20)]);
    assert_eq!(case.sees(consent.clone()), waits, "early consent is kept");
    assert_eq!(case.rounds(30), Decision::Advance { step: 1 });
    case.write();
    assert_eq!(case.rounds(30), Decision::Stay(vec![Missing::Consent]));
    assert_eq!(case.sees(consent), Decision::Advance { step: 2 });
}

#[test]
fn each_fault_takes_it_back_at_once_and_whole() {
    for wrong in [
        Fault::NoAnswer("score: wasm trap".into()),
        Fault::TwoAnswers("web".into()),
        Fault::Discount("costs are too low".into()),
        Fault::PlanRefused("a pod does not fit".into()),
    ] {
        let mut case = Case::new(terms());
        case.rounds(30);
        case.write();
        let why = Why::Fault(wrong.clone());
        assert_eq!(case.sees(fault(wrong)), Decision::RollBack(why));
        assert_eq!(case.kept.obeyed(), Obeyed::NotAsked, "before it is written");
        assert_eq!(case.rounds(100), Decision::Stay(Vec::new()));
    }
}

#[test]
fn what_was_taken_back_is_refused_until_it_changes() {
    let mut case = Case::new(terms());
    case.sees(fault(Fault::NoAnswer("trap".into())));
    case.write();
    case.restart();
    assert_eq!(case.kept.obeyed(), Obeyed::NotAsked);
    case.terms.order.remove(0);
    case.kept.follow(VERSION, &case.terms, case.now);
    assert_eq!(
        case.kept.obeyed(),
        Obeyed::NotAsked,
        "another order is no other version"
    );
    case.kept
        .follow(("newer", "old", false), &case.terms, case.now);
    assert_eq!(case.kept.obeyed(), Obeyed::NotAsked, "not yet written");
    case.write();
    assert!(case.serves("batch"));
}

#[test]
fn a_restart_goes_on_from_what_is_written_and_never_further() {
    let mut case = Case::new(terms());
    case.rounds(15);
    case.write();
    case.rounds(10);
    case.restart();
    assert_eq!(
        case.rounds(5),
        Decision::Advance { step: 1 },
        "the clock went on"
    );
    case.restart();
    assert!(
        case.serves("dev") && !case.serves("batch"),
        "that was never written"
    );
    let mut gone = Case::new(terms());
    gone.kept = Kept::open(None, VERSION, &gone.terms, 0);
    assert!(!gone.serves("dev"), "nothing is known of it");
}

#[test]
fn what_another_writer_took_back_stays_so() {
    let mut case = Case::new(terms());
    let mut other = case.kept.wanted().clone();
    other.observe(&case.terms, &fault(Fault::TwoAnswers("dev".into())), 5);
    case.kept.found(other);
    assert_eq!(case.kept.obeyed(), Obeyed::NotAsked);
    assert!(!case.kept.is_unwritten());
}

#[test]
fn another_order_begins_at_its_first_step() {
    let mut case = Case::new(terms());
    case.rounds(30);
    case.write();
    case.terms.order[0] = vec!["web".into()];
    case.kept.follow(VERSION, &case.terms, case.now);
    assert!(
        !case.serves("dev") && !case.serves("web"),
        "not yet written"
    );
    case.write();
    assert_eq!(case.kept.obeyed(), Obeyed::Named(vec!["web".into()]));
}

#[test]
fn another_old_version_begins_the_step_again() {
    let mut case = Case::new(terms());
    case.rounds(30);
    case.write();
    case.rounds(29);
    case.kept
        .follow(("new", "older", false), &case.terms, case.now);
    assert!(case.serves("batch"), "as far as it was");
    let waits = vec![Missing::Hold(1740), Missing::Rounds(19)];
    assert_eq!(case.rounds(1), Decision::Stay(waits));
}

#[test]
fn launches_that_fail_three_times_as_often_take_it_back() {
    let decision = |old, new| Case::new(terms()).sees(launches(old, new));
    let is_back = |decision| matches!(decision, Decision::RollBack(Why::LaunchesFail(_)));
    assert!(is_back(decision((80, 9), (10, 3))), "30 % and 10 %");
    assert!(!is_back(decision((80, 9), (11, 3))), "27 % and 10 %");
    assert!(!is_back(decision((80, 9), (2, 2))), "two say nothing");
    assert!(is_back(decision((0, 0), (3, 3))), "5 % are expected");
    assert!(!is_back(decision((0, 0), (21, 3))));
}

#[test]
fn nodes_that_are_late_have_to_come_or_fail_before_it_goes_on() {
    let mut case = Case::new(terms());
    let late = |late| Facts {
        late: Some(late),
        ..Facts::default()
    };
    case.sees(late(2));
    let waits = Decision::Stay(vec![Missing::LateNodes(2)]);
    assert_eq!(case.rounds(30), waits, "rounds do not look at nodes");
    assert_eq!(case.sees(late(0)), Decision::Advance { step: 1 });
}

#[test]
fn more_pods_left_over_or_too_high_a_cost_take_it_back() {
    let decision = |usd, left| Case::new(terms()).sees(compared(usd, left));
    let left = Why::PodsLeftOver { old: 1, new: 2 };
    assert_eq!(decision((1.0, 0.5), (1, 2)), Decision::RollBack(left));
    let dearer = Why::Dearer { old: 1.0, new: 1.2 };
    assert_eq!(decision((1.0, 1.2), (1, 1)), Decision::RollBack(dearer));
    assert!(matches!(decision((1.0, 1.1), (1, 1)), Decision::Stay(_)));
    let fewer = decision((1.0, 1.2), (2, 1));
    assert!(
        matches!(fewer, Decision::Stay(_)),
        "more is bought for more pods"
    );
}

#[test]
fn no_second_node_boots_with_a_text_before_the_first_is_ready() {
    let mut case = Case::booting();
    assert!(!case.kept.may_boot("a"), "nothing is written down of it");
    case.sees(node(NodeFact::Launching("a".into())));
    assert!(!case.kept.may_boot("a"));
    case.write();
    case.sees(node(NodeFact::Launching("b".into())));
    assert!(case.kept.may_boot("a") && !case.kept.may_boot("b"));
    case.sees(node(NodeFact::Ready("b".into())));
    assert!(!case.kept.may_boot("b"), "another node says nothing");
    case.sees(node(NodeFact::Ready("a".into())));
    case.write();
    assert!(case.kept.may_boot("b"));
    case.now = 1800;
    assert_eq!(case.sees(Facts::default()), Decision::Advance { step: 1 });
}

#[test]
fn a_first_node_that_is_late_or_lost_takes_the_text_back() {
    let mut late = Case::booting();
    late.sees(node(NodeFact::Launching("a".into())));
    late.write();
    late.now = FIRST_NODE_SECONDS - 1;
    assert!(matches!(late.sees(Facts::default()), Decision::Stay(_)));
    late.now += 1;
    let why = |gone| Why::FirstNode {
        claim: "a".into(),
        gone,
    };
    assert_eq!(late.sees(Facts::default()), Decision::RollBack(why(false)));
    assert!(!late.kept.may_boot("a") && !late.kept.may_boot("b"));

    let mut lost = Case::booting();
    lost.sees(node(NodeFact::Launching("a".into())));
    let gone = lost.sees(node(NodeFact::Gone("a".into())));
    assert_eq!(gone, Decision::RollBack(why(true)));

    let mut none = Case::booting();
    none.sees(node(NodeFact::Launching("a".into())));
    none.sees(node(NodeFact::NotLaunched("a".into())));
    none.write();
    none.sees(node(NodeFact::Launching("b".into())));
    none.write();
    assert!(none.kept.may_boot("b"), "no instance has had the text");
}

#[test]
fn one_that_was_promoted_is_still_taken_back() {
    let mut case = Case::new(terms());
    for _ in 0..3 {
        case.rounds(30);
        case.write();
    }
    assert_eq!(case.kept.wanted().phase, Phase::Promoted);
    let back = case.sees(fault(Fault::NoAnswer("trap".into())));
    assert!(matches!(back, Decision::RollBack(_)));
}

#[test]
fn its_verdict_is_a_sentence() {
    let mut case = Case::new(terms());
    case.now = 600;
    case.sees(compared((2.0, 1.5), (0, 0)));
    let verdict = |case: &Case| case.kept.wanted().verdict(&case.terms, case.now);
    assert_eq!(
        verdict(&case),
        "step 1 of 3, waits for 20 min of its hold, 19 rounds in which it is asked; 1 rounds planned \
         with both: 1.5000 USD/h and 0 pods left over, without it 2.0000 and 0"
    );
    case.sees(fault(Fault::NoAnswer("score: wasm trap".into())));
    assert_eq!(
        verdict(&case),
        "taken back: it gave no answer: score: wasm trap; refused until its component or settings \
         change"
    );
}
