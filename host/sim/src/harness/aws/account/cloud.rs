//! The account as the cloud of a world.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_emulator::shell::Shell;
use longshore_emulator::world::World;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Account, Connected, Machine, Timers, id_of, paid};
use longshore_simcluster::clock::Clock;
use longshore_simcluster::cloud::elsewhere::Elsewhere;
use longshore_simcluster::cloud::{
    CloudEvent, Disturbances, Entry, LaunchFaults, Ledger, Running, Stats,
};
use longshore_simcluster::log::Log;
use longshore_simcluster::server::Server;

impl Elsewhere for Account {
    fn connect(&self, server: Server, clock: Clock, log: Log) {
        let elapsed = i64::try_from(clock.elapsed().as_millis()).unwrap_or(0);
        let base = clock.now().as_millisecond() - elapsed;
        let world = World::new(self.options.account.clone(), self.seed);
        let connected = Connected {
            shell: Shell::new(world, Timers { clock, base }),
            server,
            clock,
            log,
            base,
        };
        assert!(
            self.connected.set(connected).is_ok(),
            "an account is one world's"
        );
    }

    fn next(&self) -> Option<Duration> {
        let event = self.connected().shell.look(World::next_event);
        let event = event.map(|time| self.elapsed(time));
        let state = self.state();
        let machines = state.machines.values();
        let own = machines.flat_map(|one| [one.boots, one.wanted]).flatten();
        let outage = state.outages.keys().next().map(|(at, _)| *at);
        own.chain(event).chain(outage).min()
    }

    fn step(&self, now: Duration) {
        self.connected()
            .shell
            .with(|world, time| world.advance(time));
        self.sync();
        self.end_outages(now);
        self.take_back(now);
        self.boot(now);
    }

    fn events(&self) -> Vec<CloudEvent> {
        self.state().happened.drain(..).collect()
    }

    fn asked(&self) -> &Notify {
        &self.changed
    }

    fn ledger(&self) -> Ledger {
        self.sync();
        let now = self.connected().clock.elapsed();
        let state = self.state();
        let machines = state.order.iter().filter_map(|id| state.machines.get(id));
        let entries = machines.map(|one| Entry {
            paid: paid(one, now),
            ..one.entry.clone()
        });
        Ledger {
            entries: entries.collect(),
        }
    }

    fn running(&self) -> Vec<Running> {
        self.sync();
        let state = self.state();
        let machines = state.order.iter().filter_map(|id| state.machines.get(id));
        let running = machines.filter(|one| one.entry.end.is_none());
        let one = |Machine { entry, price, .. }: &Machine| Running {
            provider_id: entry.provider_id.clone(),
            node: entry.node.clone(),
            node_pool: entry.node_pool.clone(),
            instance_type: entry.instance_type.clone(),
            capacity_type: entry.capacity_type.clone(),
            offering: format!(
                "{}/{}/{}",
                entry.instance_type, entry.zone, entry.capacity_type
            ),
            price: *price,
        };
        running.map(one).collect()
    }

    fn runs(&self, provider_id: &str) -> bool {
        self.sync();
        let state = self.state();
        let machine = state.machines.get(id_of(provider_id));
        machine.is_some_and(|one| one.entry.end.is_none())
    }

    fn runs_for(&self, claim: &str) -> Option<String> {
        self.sync();
        let state = self.state();
        let mut running = state.machines.values().map(|one| &one.entry);
        let own = running.find(|entry| entry.end.is_none() && entry.claim_uid == claim);
        own.map(|entry| entry.node.clone())
    }

    fn warned(&self, provider_id: &str) -> bool {
        let (id, state) = (id_of(provider_id), self.state());
        state.noticed.contains(id) || state.retired.contains(id)
    }

    fn stats(&self) -> Stats {
        let (failed, short) = self.fleets.counts();
        Stats {
            failed,
            short,
            ..self.state().stats.clone()
        }
    }

    fn interrupt(&self, provider_id: &str) -> bool {
        if !self.runs(provider_id) {
            return false;
        }
        let id = id_of(provider_id).to_owned();
        let spot = {
            let mut state = self.state();
            let spot = state
                .machines
                .get(&id)
                .is_some_and(|one| one.entry.capacity_type == "spot");
            state.stats.interruptions += u64::from(spot);
            let said = if spot {
                &mut state.noticed
            } else {
                &mut state.retired
            };
            // One notice for one instance; EC2 sends them again by itself.
            if !said.insert(id.clone()) {
                return true;
            }
            spot
        };
        let kind = if spot { "spot" } else { "scheduledChange" };
        self.say(format!("{id} is given notice ({kind})"));
        self.faults(&json!([{"interrupt": {"instance": id, "kind": kind}}]));
        true
    }

    fn kill(&self, provider_id: &str) -> bool {
        if !self.runs(provider_id) {
            return false;
        }
        let id = id_of(provider_id);
        let gone = json!({"instance": id, "kind": "spot", "afterSeconds": 0});
        // EC2 does not say it before; that it has ended it does.
        self.faults(&json!([{"interrupt": gone}]));
        self.connected()
            .shell
            .with(|world, time| world.advance(time));
        self.sync();
        true
    }

    fn capacity_outage(&self, pattern: &str, length: Duration) {
        let connected = self.connected();
        let now = connected.clock.elapsed();
        let parts: Vec<&str> = pattern.split('/').collect();
        let names = ["instanceType", "zone", "capacityType"];
        let rule = |free: Value| {
            let mut rule = json!({"free": free});
            for (name, part) in names.iter().zip(&parts) {
                if *part != "*" {
                    rule[*name] = (*part).into();
                }
            }
            json!([{"capacity": rule}])
        };
        self.faults(&rule(0.into()));
        let mut state = self.state();
        let what = format!("{pattern}: no capacity for {} s", length.as_secs());
        state.stats.capacity_outages.push((now, what.clone()));
        let number = state.stats.capacity_outages.len() as u64;
        state
            .outages
            .insert((now + length, number), rule(Value::Null));
        drop(state);
        self.changed.notify_one();
        self.say(what);
    }

    fn shift_prices(&self, pattern: &str, factor: f64) {
        self.say(format!(
            "{pattern}: prices times {factor} are not emulated for EC2, and stay"
        ));
    }

    /// Launches: the same shares as of the simulated cloud, in terms of CreateFleet.
    fn set_faults(&self, faults: LaunchFaults) {
        self.clear_faults();
        let on = |share: f64| json!({"action": "CreateFleet", "probability": share});
        let (fail, lost, slow) = (on(faults.fail), on(faults.lost), on(faults.slow));
        let mut wanted = Vec::new();
        if faults.fail > 0.0 {
            let code = "InternalError";
            wanted.push(json!({"error": {"on": fail, "when": "before", "code": code}}));
        }
        if faults.lost > 0.0 {
            wanted.push(json!({"drop": {"on": lost, "when": "after"}}));
        }
        if faults.slow > 0.0 {
            wanted.push(json!({"delay": {"on": slow, "milliseconds": 20_000}}));
        }
        if !wanted.is_empty() {
            self.faults(&wanted.into());
        }
        self.state().never = Some((faults.never_register, faults.never_ready));
    }

    fn set_disturbances(&self, disturbances: Disturbances) {
        self.state().calm = disturbances.interruptions <= 0.0;
        self.changed.notify_one();
    }

    fn trouble(&self, what: &str) {
        match serde_json::from_str(what) {
            Ok(faults) => {
                self.say(format!("faults: {what}"));
                self.faults(&faults);
            }
            Err(error) => self.wrong(format!("{what}: {error}")),
        }
    }

    fn unsettled(&self) -> Vec<String> {
        let state = self.state();
        let mut wrong = state.wrong.clone();
        for id in &state.retired {
            let runs = state
                .machines
                .get(id)
                .is_some_and(|one| one.entry.end.is_none());
            if runs {
                wrong.push(format!(
                    "{id} is to be retired and runs: its message was lost"
                ));
            }
        }
        let mut groups: BTreeMap<&str, u64> = BTreeMap::new();
        for one in state.machines.values() {
            if !one.entry.group.is_empty() {
                *groups.entry(&one.entry.group).or_default() += 1;
            }
        }
        for (token, count) in groups {
            let most = self.fleets.wanted(token);
            if count > most {
                wrong.push(format!(
                    "{count} instances were made for group {token}, and {most} were wanted"
                ));
            }
        }
        wrong
    }
}
