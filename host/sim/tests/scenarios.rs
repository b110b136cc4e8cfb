//! Scenarios: the shipped ones run, and the same seed gives the same bytes; those that make no
//! sense are refused in words.

use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::{Expect, expect};
use longshore_sim::scenario::play::{ScenarioOutcome, play};
use longshore_sim::scenario::policy::Policy;
use longshore_sim::scenario::{Scenario, read};
use longshore_sim::show;

use crate::incidents::folder;
use crate::incidents::guest::{Way, guest};

fn shipped() -> Vec<PathBuf> {
    let folder =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../examples/scenarios");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    files
}

fn shown(scenario: &Scenario) -> (String, String) {
    let run = [play(scenario, &scenario.policy, None)
        .unwrap_or_else(|failure| panic!("{}", failure.report()))];
    assert_eq!(run[0].totals.violations, Vec::<String>::new());
    assert!(run[0].totals.launched > 0 && run[0].totals.all.usd > 0.0);
    (show::text::text(&run[0]), show::json::json(&run))
}

#[test]
fn every_shipped_scenario_runs_and_its_seed_decides_every_byte() {
    let files = shipped();
    assert_eq!(files.len(), 8);
    for file in files {
        if file.ends_with("spot-on-ec2.toml") && !cfg!(feature = "aws") {
            let refused = read::read(&file).expect_err("there is no EC2").report();
            assert!(refused.contains("--features aws"), "{refused}");
            continue;
        }
        let mut scenario = read::read(&file).unwrap_or_else(|unread| panic!("{}", unread.report()));
        scenario.cut(Duration::from_secs(40 * 60));
        let first = shown(&scenario);
        assert_eq!(first, shown(&scenario), "{}", file.display());
        scenario.seed += 1;
        assert_ne!(first.1, shown(&scenario).1, "{}", file.display());
    }
}

/// A scenario of a few minutes, with `more` at its end.
fn small(more: &str) -> String {
    format!(
        "version = 1\nduration = \"20m\"\nbegins = \"2026-01-05T08:00:00Z\"\n\
         [[nodepool]]\nname = \"general\"\ncapacity-types = [\"spot\", \"on-demand\"]\n\
         [[deployment]]\nname = \"web\"\ncpu = \"900m\"\nmemory = \"512Mi\"\nreplicas = 4\n{more}"
    )
}

// Six of the 418 requests are for what policies are told of disruptions. Each of the three commands
// writes annotation `longshore.dev/disruptions` of its NodePool before it deletes the NodeClaim. And the
// step that ends the NodeClaim runs twice then, before the watch says that the Node is being deleted: so
// each of the three Nodes is deleted twice, and the second time changes nothing.
#[test]
fn what_happens_is_in_the_timeline_and_in_the_totals() {
    let more = "adjust-every = \"1m\"\nload = [{ shape = \"burst\", at = \"5m\", for = \"5m\", add = 6 }]\n\
        [[event]]\nat = \"6m\"\ndo = \"kill-daemon\"\n\
        [[event]]\nat = \"7m\"\ndo = \"shortage\"\nfor = \"3m\"\nofferings = \"*/*/spot\"\n\
        [[event]]\nat = \"12m\"\ndo = \"break\"\n\
        [[job]]\nname = \"night\"\ncpu = \"1\"\nmemory = \"1Gi\"\npods = 3\nruns-for = \"2m\"\nat \
            = \"8m\"\n";
    let scenario = read::parse(Path::new("day.toml"), &small(more))
        .unwrap_or_else(|unread| panic!("{}", unread.report()));
    let (text, _) = shown(&scenario);
    expect![[r#"
        day: 20m from 2026-01-05 on, seed 1, scored by price

        UNTIL          PODS  WAITING  NODES   SPOT     USD/H
        Mon 08:01         4        4      1      1     0.065
        Mon 08:02         4        ·      1      1     0.076
        Mon 08:03         4        ·      1      1     0.076
        Mon 08:04         4        ·      1      1     0.076
        Mon 08:05         4        ·      1      1     0.076
        Mon 08:06        10        6      3      3     0.190  daemon killed
        Mon 08:07        10        ·      3      3     0.190  daemon#2 begins
                                                            */*/spot: no capacity for 180 s
        Mon 08:08        10        ·      3      3     0.190  job night-1: 3 pods
        Mon 08:09        13        3      4      3     0.299
        Mon 08:10        13        ·      4      3     0.299  1 launch failed
        Mon 08:11         4        ·      3      2     0.261
        Mon 08:12         4        2      1      1     0.113  machines of */*/* die: 1
        Mon 08:13         0        ·      0      0     0.000  1 node taken back or dead
        Mon 08:14         4        4      1      1     0.076
        Mon 08:15         4        ·      1      1     0.076
        Mon 08:16         4        ·      1      1     0.076
        Mon 08:17         4        ·      1      1     0.076
        Mon 08:18         4        ·      1      1     0.076
        Mon 08:19         4        ·      1      1     0.076
        Mon 08:20         4        ·      1      1     0.076

        cost         0.04 USD, 0.122 USD/h on average, 0.6 node-hours, 4 nodes at most
                     on-demand                      0.01 USD   14 %        0.1 node-hours
                     spot                           0.04 USD   86 %        0.5 node-hours
                     NodePool general               0.04 USD  100 %        0.6 node-hours
        waiting      19 pods: half 43.3 s, 90 % 53.3 s, 99 % 53.3 s, the longest 53.3 s, on average 32.8 s
        disruption   2 pods evicted, 4 lost with their machine; 0 interruptions, 1 machines taken back
        daemon       5 launches, 1 failed (1 for want of capacity); 1 restarts, 418 requests
        rules        none broken
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_policy_that_excludes_spot_shows_in_a_comparison() {
    let file = folder("compared").join("scorer.wasm");
    // Every second offering is one of spot.
    let component = guest("1.0.0", Way::Alternates(1.0, f64::INFINITY));
    std::fs::write(&file, component).unwrap();
    let typed = Policy::typed(&file.display().to_string());
    let policy = typed.unwrap_or_else(|failure| panic!("{}", failure.report()));
    let scenario = read::parse(Path::new("day.toml"), &small(""))
        .unwrap_or_else(|unread| panic!("{}", unread.report()));
    let run = |policy: &Policy| {
        let run = play(&scenario, policy, None);
        run.unwrap_or_else(|failure| panic!("{}", failure.report()))
    };
    let runs = [run(&Policy::price()), run(&policy)];
    let money =
        |run: &ScenarioOutcome, of: &str| run.totals.by_capacity.get(of).map_or(0.0, |of| of.usd);
    assert_eq!(money(&runs[0], "on-demand"), 0.0);
    assert!(money(&runs[0], "spot") > 0.0);
    assert_eq!(money(&runs[1], "spot"), 0.0);
    assert!(money(&runs[1], "on-demand") > 0.0);
    let text = show::compare::compare(&runs);
    let line = text.lines().find(|line| line.starts_with("… spot"));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.ends_with("-100.0 %"), "{line}");
}

fn refused(text: &str, expected: Expect) {
    let unread = read::parse(Path::new("day.toml"), text).expect_err("has faults");
    expected.assert_eq(&unread.report());
}

#[test]
fn a_scenario_without_anything_says_what_is_missing() {
    refused(
        "",
        expect![[r#"
        the scenario has 3 faults
          day.toml:1:1: `version` is missing
            hint: add `version = 1`
          day.toml:1:1: `duration` is missing
            hint: add `duration = "7d"`
          day.toml:1:1: there is no NodePool: no node would ever be bought
            hint: add a [[nodepool]], or name a file with one in `manifests`"#]],
    );
    refused(
        "duration",
        expect![[r#"
        the scenario has 1 fault
          day.toml:1:9: key with no value, expected `=`
            hint: the file is not TOML from here on"#]],
    );
    refused(
        "version = 2\nwhatever = true\n",
        expect![[r#"
        the scenario has 1 fault
          day.toml:1:11: `version` is 2: this program reads scenarios of version 1
            hint: the file was written for a newer Longshore: take that one"#]],
    );
    refused(
        "version = \"1\"\nduration = \"0s\"\n",
        expect![[r#"
        the scenario has 3 faults
          day.toml:1:1: there is no NodePool: no node would ever be bought
            hint: add a [[nodepool]], or name a file with one in `manifests`
          day.toml:1:11: `version` is a string: expected an integer
            hint: write it without quotes
          day.toml:2:12: `duration` is `0s`: expected a duration of 60s to 34560000s
            hint: write it as `90s`, `5m` or `1h30m`"#]],
    );
}

#[test]
fn slips_are_named_with_their_place_and_a_hint() {
    refused(
        &small("replica = 3\n"),
        expect![[r#"
        the scenario has 1 fault
          day.toml:12:1: unknown key `replica` in [[deployment]]: expected one of `adjust-every`, `arch`, `capacity-type`, `cpu`, `gpus`, `grace`, `load`, `max-unavailable`, `memory`, `name`, `namespace`, `noise`, `replicas`, `spread`, `starts-after`, `stops-after`, `zones`
            hint: did you mean `replicas`?"#]],
    );
    refused(
        &small("[[event]]\nat = \"5m\"\ndo = \"kill-deamon\"\n"),
        expect![[r#"
        the scenario has 1 fault
          day.toml:14:6: `do` is `kill-deamon`: expected one of `apply`, `break`, `cut-lease`, `delete`, `drop-watches`, `forget-history`, `interrupt`, `kill-daemon`, `policy`, `prices`, `shortage`, `stall-watches`
            hint: did you mean `kill-daemon`?"#]],
    );
    refused(
        &small("[[event]]\nat = \"5m\"\ndo = \"kill-daemon\"\nfor = \"5m\"\n"),
        expect![[r#"
        the scenario has 1 fault
          day.toml:15:1: unknown key `for` in [[event]]: expected one of `at`, `do`, `every`
            hint: delete the line; host/docs/configuration.md lists the keys"#]],
    );
    refused(
        &small("zones = [\"test-zone-e\"]\nspread = [\"zones\"]\n"),
        expect![[r#"
        the scenario has 2 faults
          day.toml:12:9: zone `test-zone-e` is not there
            hint: did you mean `test-zone-d`?
          day.toml:13:10: domain `zones` is not there
            hint: did you mean `zone`?"#]],
    );
    refused(
        &small(
            "max-unavailable = \"some\"\nload = [{ shape = \"weave\", add = 3 }, { shape = \
            \"burst\", add = 3 }]\n",
        ),
        expect![[r#"
            the scenario has 3 faults
              day.toml:12:19: `max-unavailable` is `some`: expected a count or a share
                hint: write it as `"1"` or `"25%"`
              day.toml:13:19: `shape` is `weave`: expected one of `wave`, `ramp`, `burst`
                hint: did you mean `wave`?
              day.toml:13:39: `for` is missing in [[load]]
                hint: add `for = "30m"`"#]],
    );
    refused(
        &small("[[faults]]\nbusy = 3\n"),
        expect![[r#"
        the scenario has 2 faults
          day.toml:12:1: [[faults]] in which nothing goes wrong
            hint: add a share, as `busy = 0.02`, or delete the table
          day.toml:13:8: `busy` is 3: expected a number of 0 to 1
            hint: it is a share of requests, which are answered with 429: 0.05 for five in a hundred"#]],
    );
    refused(
        &small("[cloud]\nboot = \"soon\"\ncapacity = -1\n"),
        expect![[r#"
        the scenario has 2 faults
          day.toml:13:8: `boot` is `soon`: expected a duration of 0ns to 3600s
            hint: write it as `90s`, `5m` or `1h30m`
          day.toml:14:12: `capacity` is -1: expected a number of 0 to 1000000
            hint: how many instances there can be of each offering"#]],
    );
    refused(
        &small(
            "[[deployment]]\nname = \"api\"\ncpu = \"two\"\nmemory = \"-1Gi\"\nreplicas = \"3\"\n",
        ),
        expect![[r#"
            the scenario has 3 faults
              day.toml:14:7: `cpu` is `two`: does not start with a number
                hint: write it as `500m` or `2` (cpu), `512Mi` or `4Gi` (memory)
              day.toml:15:10: `memory` is `-1Gi`: expected at least 0
                hint: write it as `500m` or `2` (cpu), `512Mi` or `4Gi` (memory)
              day.toml:16:12: `replicas` is a string: expected a number
                hint: write it without quotes"#]],
    );
}

#[test]
fn contradictions_are_refused() {
    refused(
        "version = 1\nduration = \"1h\"\n",
        expect![[r#"
        the scenario has 1 fault
          day.toml:1:1: there is no NodePool: no node would ever be bought
            hint: add a [[nodepool]], or name a file with one in `manifests`"#]],
    );
    refused(
        &small(
            "[[load]]\ndeployment = \"wbe\"\nreplicas = 3\n[[load]]\ndeployment = \
            \"web\"\nreplicas = 3\n",
        ),
        expect![[r#"
            the scenario has 2 faults
              day.toml:13:14: Deployment `default/wbe` is not there
                hint: there is none at all
              day.toml:16:14: Deployment `default/web` has a load already
                hint: a [[deployment]] of this file has its `replicas` and `load` itself"#]],
    );
    refused(
        &small("[[event]]\nat = \"20m\"\ndo = \"drop-watches\"\n"),
        expect![[r#"
        the scenario has 1 fault
          day.toml:13:6: `at` is 20m, and the scenario ends after 20m
            hint: choose an earlier moment, or make `duration` longer"#]],
    );
    refused(
        &small("[[faults]]\nfrom = \"5m\"\nto = \"5m\"\nlate = 0.1\n[[faults]]\n"),
        expect![[r#"
        the scenario has 2 faults
          day.toml:14:6: `to` is 5m: expected a moment after `from` and not after the end
            hint: leave it out for the whole scenario
          day.toml:16:1: [[faults]] in which nothing goes wrong
            hint: add a share, as `busy = 0.02`, or delete the table"#]],
    );
    refused(
        &small("[[deployment]]\nname = \"web\"\ncpu = \"1\"\nmemory = \"1Gi\"\nreplicas = 1\n"),
        expect![[r#"
        the scenario has 1 fault
          day.toml:13:8: workload `web` is there twice
            hint: give each a name of its own"#]],
    );
    refused(
        &small("[[event]]\nat = \"5m\"\ndo = \"cut-lease\"\nfor = \"1m\"\n"),
        expect![[r#"
        the scenario has 1 fault
          day.toml:14:6: `cut-lease` with one daemon, which competes for no Lease
            hint: write `replicas = 2` in [daemon]"#]],
    );
    refused(
        &small(
            "[[event]]\nat = \"5m\"\ndo = \"shortage\"\nfor = \"1m\"\nofferings = \
            \"*/us-east-1a/spot\"\n",
        ),
        expect![[r#"
            the scenario has 1 fault
              day.toml:16:13: `offerings` is `*/us-east-1a/spot`, and there is no such offering
                hint: write TYPE/ZONE/CAPACITY-TYPE with * for any, as `*/test-zone-a/spot`"#]],
    );
    refused(
        &small("load = [{ shape = \"burst\", for = \"10m\", every = \"5m\", add = 3 }]\n"),
        expect![[r#"
        the scenario has 1 fault
          day.toml:12:49: `every` is no longer than `for`: the burst would never end
            hint: make `every` longer, or `replicas` larger"#]],
    );
    refused(
        &small("[spot]\nvolatility = 0.1\n[daemon]\nbatch-idle = \"20s\"\nbatch-max = \"10s\"\n"),
        expect![[r#"
            the scenario has 2 faults
              day.toml:13:14: prices move by `volatility`, every `prices-every`: expected both or none
                hint: for example `prices-every = "5m"` and `volatility = 0.03`
              day.toml:15:14: `batch-idle` is longer than `batch-max`
                hint: the daemon waits `batch-idle` for one more pod, `batch-max` at most"#]],
    );
}

#[test]
fn policies_and_files_that_cannot_be_used_are_named() {
    let first = |more: &str| small("").replacen("duration", &format!("{more}\nduration"), 1);
    refused(
        &first("config = \"nowhere.toml\""),
        expect![[r#"
        the scenario has 1 fault
          day.toml:2:10: cannot read nowhere.toml: No such file or directory (os error 2)
            hint: it is a longshore.toml as `longshore run` reads it"#]],
    );
    refused(
        &first("instance-types = \"nowhere.json\"\nmanifests = [\"nowhere.yaml\"]"),
        expect![[r#"
        the scenario has 2 faults
          day.toml:2:18: `instance-types`: cannot read nowhere.json: No such file or directory (os error 2)
            hint: leave it out for the 144 types of Karpenter's KWOK provider
          day.toml:3:13: cannot read nowhere.yaml: No such file or directory (os error 2)
            hint: each is a file of YAML documents, as for kubectl"#]],
    );
    refused(
        &small("[signals.carbon]\nurl = \"https://example.org/carbon.json\"\n"),
        expect![[r#"
        the scenario has 1 fault
          day.toml:1:1: signal `carbon` comes from https://example.org/carbon.json, and a simulation asks no network
            hint: save it and name the file: `file = "…"`"#]],
    );
    refused(
        &small("[[event]]\nat = \"5m\"\ndo = \"policy\"\n"),
        expect![[r#"
        the scenario has 1 fault
          day.toml:14:6: a policy comes from `config` or from `scorer`: expected one of them
            hint: `config = "longshore.toml"`, `scorer = "FILE.wasm,SETTINGS.toml"` or `scorer = "price"`"#]],
    );
    let refused = small("[[policy]]\nname = \"mine\"\npath = \"nowhere.wasm\"\n");
    let scenario = read::parse(Path::new("day.toml"), &refused)
        .unwrap_or_else(|unread| panic!("{}", unread.report()));
    let failure = play(&scenario, &scenario.policy, None).expect_err("there is no such component");
    expect![[r#"
        the policy cannot be used: nowhere.wasm: cannot be read: No such file or directory (os error 2)
          hint: check `path`, and that the daemon's user may read the file"#]]
    .assert_eq(&failure.report());
}
