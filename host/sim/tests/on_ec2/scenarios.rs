//! `provider = "aws"` in scenario files.

use std::path::Path;

use expect_test::{Expect, expect};
use longshore_sim::scenario::play::play;
use longshore_sim::scenario::read;

/// A scenario of a few minutes, with `more` at its end.
fn small(more: &str) -> String {
    format!(
        "version = 1\nprovider = \"aws\"\nduration = \"30m\"\n\
         [[nodepool]]\nname = \"general\"\ncapacity-types = [\"spot\"]\narch = [\"amd64\"]\n\
         instance-families = [\"m5\"]\n\
         [[deployment]]\nname = \"web\"\ncpu = \"900m\"\nmemory = \"512Mi\"\nreplicas = 6\n\
         spread = [\"zone\"]\n{more}"
    )
}

#[test]
fn spot_interruptions_of_a_scenario_are_answered() {
    let more = "[[event]]\nat = \"10m\"\ndo = \"interrupt\"\n\
        [[event]]\nat = \"12m\"\ndo = \"shortage\"\nfor = \"3m\"\nofferings = \"*/us-east-1a/*\"\n";
    let scenario = read::parse(Path::new("day.toml"), &small(more));
    let scenario = scenario.unwrap_or_else(|unread| panic!("{}", unread.report()));
    let run = play(&scenario, &scenario.policy, None);
    let run = run.unwrap_or_else(|failure| panic!("{}", failure.report()));
    let totals = run.totals;
    assert_eq!(totals.violations, [""; 0]);
    assert!(totals.all.usd > 0.0);
    assert!(totals.interruptions >= 3, "{}", totals.interruptions);
    let last = run.samples.last().expect("samples");
    assert_eq!((last.running, last.pending), (6, 0));
}

fn refused(more: &str, expected: &Expect) {
    let read = read::parse(Path::new("day.toml"), &small(more));
    let Err(unread) = read else {
        panic!("{more} is not refused")
    };
    expected.assert_eq(&unread.report());
}

#[test]
fn what_ec2_does_not_have_is_refused_in_words() {
    refused(
        "[spot]\nprices-every = \"5m\"\nvolatility = 0.1\n",
        &expect![[r#"
            the scenario has 2 faults
              day.toml:16:16: `prices-every` means nothing with `provider = "aws"`
                hint: prices of the emulated EC2 stay; write an [[event]] with `do = "shortage"` for a storm
              day.toml:17:14: `volatility` means nothing with `provider = "aws"`
                hint: prices of the emulated EC2 stay; write an [[event]] with `do = "shortage"` for a storm"#]],
    );
    refused(
        "[cloud]\nnotice = \"1m\"\n",
        &expect![[r#"
        the scenario has 1 fault
          day.toml:16:10: `notice` means nothing with `provider = "aws"`
            hint: EC2 gives notice two minutes before"#]],
    );
    refused(
        "[[event]]\nat = \"1m\"\ndo = \"shortage\"\nfor = \"1m\"\nofferings = \"*/test-zone-a/*\"\n",
        &expect![[r#"
            the scenario has 1 fault
              day.toml:19:13: `offerings` is `*/test-zone-a/*`, and there is no such offering
                hint: write TYPE/ZONE/CAPACITY-TYPE with * for any, as `*/us-east-1a/spot`"#]],
    );
}
