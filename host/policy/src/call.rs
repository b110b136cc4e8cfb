//! One instance of a policy: its store, its answers, and their validation.
//!
//! Nothing that comes out of a guest is trusted. The owner drops an instance after any failure:
//! after a trap it cannot be entered again, and after a failed copy it may have leaked.

pub(crate) mod answer;
mod judge;

use std::sync::Arc;
use std::time::Instant;

use longshore_core::model::OfferingId;
use longshore_core::policy::{CommitmentPool, Draw, Scores};
use wasmtime::component::{ComponentType, Lift, TypedFunc};
use wasmtime::{Store, Trap};

use crate::bootstrap::functions::BootFunctions;
use crate::engine::{Limits, TICK, ticks};
use crate::guest_text::cut;
use crate::imports::state::{Message, State, TooManyCalls};
use crate::loaded::Loaded;
use crate::score_request::ScoreRequest;
use crate::version::Budget;
use answer::{About, Answer, CallError};

#[derive(ComponentType, Lift)]
#[component(record)]
struct RawPool {
    name: String,
    remaining: f64,
    offerings: Vec<u32>,
    amounts: Vec<f64>,
    costs: Vec<f64>,
}

/// The longest text of a guest that gets into an error.
const MAX_ERROR_CHARS: usize = 500;

/// An instance of a policy.
pub(crate) struct Instance {
    store: Store<State>,
    limits: Limits,
    budget: Budget,
    describe: TypedFunc<(), (About,)>,
    configure: TypedFunc<(Arc<str>,), Answer<()>>,
    score: Option<TypedFunc<(), Answer<Vec<f64>>>>,
    pools: Option<TypedFunc<(), Answer<Vec<RawPool>>>>,
    weigh: Option<TypedFunc<(), Answer<Vec<f64>>>>,
    decide: Option<TypedFunc<(), Answer<Vec<judge::RawDecision>>>>,
    boot: Option<BootFunctions>,
}

impl Instance {
    /// A fresh instance. Fails with `wasmtime`'s words where the exports have other types than the
    /// contract's.
    pub fn new(loaded: &Loaded) -> Result<Self, CallError> {
        Instance::within(loaded, Budget::NONE)
    }

    /// As [`Instance::new`], with a budget for that and all calls.
    pub fn within(loaded: &Loaded, mut budget: Budget) -> Result<Self, CallError> {
        let limits = loaded.limits;
        let state = State {
            columns: loaded.no_columns.clone(),
            signals: Arc::default(),
            signals_generation: 0,
            cluster: Arc::default(),
            proposals: Arc::default(),
            node_pool: Arc::from(""),
            boot: Arc::default(),
            built_in: Arc::default(),
            now: 0.0,
            limits: limits.store(),
            host_calls: 0,
            log_room: 0,
            messages: Vec::new(),
        };
        let mut store = Store::new(loaded.pre.engine(), state);
        store.limiter(|state| &mut state.limits);
        allow(&mut store, &limits, &budget, 0)
            .map_err(|error| failure("instantiate", &error, &store, &limits, 0))?;
        let begun = Instant::now();
        let made = loaded.pre.instantiate(&mut store).and_then(|instance| {
            let function = |store: &mut Store<State>, index| {
                instance
                    .get_func(store, index)
                    .ok_or_else(|| wasmtime::Error::msg("an export is not a function"))
            };
            let exports = &loaded.exports;
            let describe = function(&mut store, &exports.describe)?.typed(&store)?;
            let configure = function(&mut store, &exports.configure)?.typed(&store)?;
            let score = exports
                .score
                .as_ref()
                .map(|at| function(&mut store, at)?.typed(&store))
                .transpose()?;
            let pools = exports
                .pools
                .as_ref()
                .map(|at| function(&mut store, at)?.typed(&store))
                .transpose()?;
            let weigh = exports
                .weigh
                .as_ref()
                .map(|at| function(&mut store, at)?.typed(&store))
                .transpose()?;
            let decide = exports
                .decide
                .as_ref()
                .map(|at| function(&mut store, at)?.typed(&store))
                .transpose()?;
            let boot = BootFunctions::of(exports, &mut store, &instance)?;
            Ok((describe, configure, score, pools, weigh, decide, boot))
        });
        match made {
            Ok((describe, configure, score, pools, weigh, decide, boot)) => Ok(Instance {
                budget: {
                    budget.spend(&store, &limits, 0, begun);
                    budget
                },
                store,
                limits,
                describe,
                configure,
                score,
                pools,
                weigh,
                decide,
                boot,
            }),
            Err(error) => {
                budget.spend(&store, &limits, 0, begun);
                let error = failure("instantiate", &error, &store, &limits, 0);
                Err(budget.blamed(error))
            }
        }
    }

    /// What is left for further calls.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Asks for its identity.
    pub fn describe(&mut self) -> Result<About, CallError> {
        let (about,) = self.call("describe", self.describe, (), 0)?;
        Ok(about)
    }

    /// Gives it its settings, a JSON object.
    pub fn configure(&mut self, settings: Arc<str>) -> Result<(), CallError> {
        let (answer,) = self.call("configure", self.configure, (settings,), 0)?;
        answer.map_err(|message| CallError::Refused {
            asked: "configure",
            message: cut(message, MAX_ERROR_CHARS),
        })
    }

    /// What the next questions are about.
    pub fn set_request(&mut self, request: &ScoreRequest) {
        let state = self.store.data_mut();
        state.columns = request.columns.clone();
        (state.signals, state.signals_generation) = request.signals.clone();
        state.node_pool = request.node_pool.clone();
        state.now = request.now;
    }

    /// Costs and commitment pools for the request set.
    pub fn score(&mut self) -> Result<Scores, CallError> {
        let rows = self.store.data().columns.count();
        let Some(score) = self.score else {
            return Err(CallError::Answer {
                asked: "score",
                problem: "the policy does not export `scorer`".to_owned(),
            });
        };
        let cost = self.ask("score", score, rows)?;
        let cost = checked_costs(cost, rows).map_err(|problem| CallError::Answer {
            asked: "score",
            problem,
        })?;
        let pools = match self.pools {
            Some(pools) => self.ask("pools", pools, rows)?,
            None => Vec::new(),
        };
        let pools = checked_pools(pools, rows).map_err(|problem| CallError::Answer {
            asked: "pools",
            problem,
        })?;
        Ok(Scores {
            policy: None,
            cost: cost.into(),
            pools,
        })
    }

    /// What it offers as a bootstrap policy, and its data.
    pub fn boot(&mut self) -> (Option<BootFunctions>, &mut State) {
        (self.boot, self.store.data_mut())
    }

    /// What it has said since last asked.
    pub fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.store.data_mut().messages)
    }

    fn ask<T>(
        &mut self,
        asked: &'static str,
        f: TypedFunc<(), Answer<T>>,
        rows: usize,
    ) -> Result<T, CallError>
    where
        T: Lift + Send + Sync + 'static,
    {
        self.ask_with(asked, f, (), rows)
    }

    /// Asks with parameters. `rows` is how many the answer has, for the limits.
    pub fn ask_with<P, T>(
        &mut self,
        asked: &'static str,
        f: TypedFunc<P, Answer<T>>,
        with: P,
        rows: usize,
    ) -> Result<T, CallError>
    where
        P: wasmtime::component::ComponentNamedList + wasmtime::component::Lower,
        T: Lift + Send + Sync + 'static,
    {
        let (answer,) = self.call(asked, f, with, rows)?;
        answer.map_err(|message| CallError::Refused {
            asked,
            message: cut(message, MAX_ERROR_CHARS),
        })
    }

    fn call<P, R>(
        &mut self,
        asked: &'static str,
        f: TypedFunc<P, R>,
        with: P,
        rows: usize,
    ) -> Result<R, CallError>
    where
        P: wasmtime::component::ComponentNamedList + wasmtime::component::Lower,
        R: wasmtime::component::ComponentNamedList + Lift + 'static,
    {
        if self.budget.fuel == 0 || self.budget.time.is_zero() {
            let what = if self.budget.fuel == 0 {
                "fuel"
            } else {
                "time"
            };
            return Err(CallError::Budget { asked, what });
        }
        let begun = Instant::now();
        let answer = allow(&mut self.store, &self.limits, &self.budget, rows)
            .and_then(|()| f.call(&mut self.store, with));
        self.budget.spend(&self.store, &self.limits, rows, begun);
        answer.map_err(|error| {
            let error = failure(asked, &error, &self.store, &self.limits, rows);
            self.budget.blamed(error)
        })
    }
}

impl Budget {
    /// Takes off what a call has used.
    fn spend(&mut self, store: &Store<State>, limits: &Limits, rows: usize, begun: Instant) {
        let given = limits.fuel_for(rows).min(self.fuel);
        let used = given.saturating_sub(store.get_fuel().unwrap_or(0));
        self.fuel = self.fuel.saturating_sub(used);
        self.time = self.time.saturating_sub(begun.elapsed());
    }

    /// A call that was cut short because there was no more is no fault of that call.
    fn blamed(&self, error: CallError) -> CallError {
        match error {
            CallError::Fuel { asked, .. } if self.fuel == 0 => CallError::Budget {
                asked,
                what: "fuel",
            },
            CallError::Time { asked, .. } if self.time < TICK => CallError::Budget {
                asked,
                what: "time",
            },
            other => other,
        }
    }
}

/// Fills up what one call may use.
fn allow(
    store: &mut Store<State>,
    limits: &Limits,
    budget: &Budget,
    rows: usize,
) -> wasmtime::Result<()> {
    store.set_fuel(limits.fuel_for(rows).min(budget.fuel))?;
    store.set_epoch_deadline(ticks(limits.time.min(budget.time)));
    store.set_hostcall_fuel(limits.answer_for(rows));
    let state = store.data_mut();
    state.host_calls = limits.host_calls;
    state.log_room = limits.log;
    Ok(())
}

/// What a failed call means. Kinds without a type of their own are recognised by wasmtime's
/// message.
fn failure(
    asked: &'static str,
    error: &wasmtime::Error,
    store: &Store<State>,
    limits: &Limits,
    rows: usize,
) -> CallError {
    if error.downcast_ref::<TooManyCalls>().is_some() {
        return CallError::HostCalls {
            asked,
            limit: limits.host_calls,
        };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => {
            return CallError::Fuel {
                asked,
                fuel: limits.fuel_for(rows),
            };
        }
        Some(Trap::Interrupt) => {
            return CallError::Time {
                asked,
                limit: limits.time,
            };
        }
        _ => {}
    }
    let words = format!("{:#}", error.root_cause());
    if words.contains("growing memory") || words.contains("exceeds memory limits") {
        return CallError::Memory {
            asked,
            limit: limits.memory,
        };
    }
    if words.contains("too much data is being copied") {
        return CallError::TooLarge {
            asked,
            limit: limits.answer_for(rows),
        };
    }
    let said = store
        .data()
        .messages
        .last()
        .map_or_else(String::new, |message| {
            format!("; it said: {}", message.text)
        });
    CallError::Trap {
        asked,
        reason: cut(words, MAX_ERROR_CHARS) + &said,
    }
}

/// Costs that keep the contract; a zero loses its sign.
fn checked_costs(mut cost: Vec<f64>, rows: usize) -> Result<Vec<f64>, String> {
    if cost.len() != rows {
        return Err(format!("{} costs for {rows} offerings", cost.len()));
    }
    // One pass without branches; which row it was is looked for only if there is one.
    let bad = |cost: f64| cost.is_nan() || cost < 0.0;
    if cost.iter().fold(false, |any, &cost| any | bad(cost)) {
        let at = cost.iter().position(|&cost| bad(cost)).unwrap_or_default();
        return Err(format!(
            "the cost of offering {at} is {}; expected 0 or more, or infinity",
            cost[at]
        ));
    }
    if rows > 0 && cost.iter().all(|cost| cost.is_infinite()) {
        return Err("every offering is excluded".to_owned());
    }
    for cost in &mut cost {
        *cost += 0.0;
    }
    Ok(cost)
}

fn checked_pools(pools: Vec<RawPool>, rows: usize) -> Result<Vec<CommitmentPool>, String> {
    let mut drawn = vec![false; if pools.is_empty() { 0 } else { rows }];
    let mut names = std::collections::BTreeSet::new();
    let mut checked = Vec::with_capacity(pools.len());
    for pool in pools {
        let name = cut(pool.name, MAX_ERROR_CHARS);
        let wrong = |what: String| Err(format!("pool `{name}`: {what}"));
        if !names.insert(name.clone()) {
            return wrong("declared twice".to_owned());
        }
        if !(pool.remaining.is_finite() && pool.remaining >= 0.0) {
            return wrong(format!(
                "{} is left; expected a finite number, 0 or more",
                pool.remaining
            ));
        }
        let lengths = (pool.offerings.len(), pool.amounts.len(), pool.costs.len());
        if lengths.0 != lengths.1 || lengths.0 != lengths.2 {
            return wrong(format!("columns of different lengths: {lengths:?}"));
        }
        let mut draws = Vec::with_capacity(pool.offerings.len());
        for ((&offering, &amount), &cost) in
            pool.offerings.iter().zip(&pool.amounts).zip(&pool.costs)
        {
            match drawn.get_mut(offering as usize) {
                None => return wrong(format!("offering {offering} is not one of {rows}")),
                Some(true) => return wrong(format!("offering {offering} draws on a pool already")),
                Some(free) => *free = true,
            }
            if !(amount.is_finite() && amount > 0.0) {
                return wrong(format!(
                    "offering {offering} takes {amount}; expected a finite number above 0"
                ));
            }
            if !(cost.is_finite() && cost >= 0.0) {
                return wrong(format!(
                    "offering {offering} costs {cost} inside; expected a finite number, 0 or more"
                ));
            }
            draws.push(Draw {
                offering: OfferingId(offering),
                amount,
                cost: cost + 0.0,
            });
        }
        checked.push(CommitmentPool {
            name,
            remaining: pool.remaining + 0.0,
            draws,
        });
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn costs_that_break_the_contract_are_named() {
        let problem = |cost: &[f64]| checked_costs(cost.to_vec(), 3).unwrap_err();
        assert_eq!(problem(&[1.0]), "1 costs for 3 offerings");
        assert_eq!(
            problem(&[1.0, f64::NAN, 2.0]),
            "the cost of offering 1 is NaN; expected 0 or more, or infinity"
        );
        assert_eq!(
            problem(&[1.0, 2.0, -0.1]),
            "the cost of offering 2 is -0.1; expected 0 or more, or infinity"
        );
        assert_eq!(problem(&[INF; 3]), "every offering is excluded");
        assert_eq!(
            problem(&[-INF, 0.0, 1.0]),
            "the cost of offering 0 is -inf; expected 0 or more, or infinity"
        );
    }

    #[test]
    fn a_zero_loses_its_sign_and_an_empty_catalogue_is_fine() {
        assert!(checked_costs(vec![-0.0, INF, 1.0], 3).unwrap()[0].is_sign_positive());
        assert!(checked_costs(vec![], 0).unwrap().is_empty());
    }

    #[test]
    fn pools_that_break_the_contract_are_named() {
        let pool = |name: &str, remaining, rows: &[u32], amount, cost| RawPool {
            name: name.to_owned(),
            remaining,
            offerings: rows.to_vec(),
            amounts: vec![amount; rows.len()],
            costs: vec![cost; rows.len()],
        };
        let problem = |pools| checked_pools(pools, 3).unwrap_err();
        assert_eq!(
            problem(vec![pool("a", INF, &[], 1.0, 0.0)]),
            "pool `a`: inf is left; expected a finite number, 0 or more"
        );
        assert_eq!(
            problem(vec![pool("a", 1.0, &[3], 1.0, 0.0)]),
            "pool `a`: offering 3 is not one of 3"
        );
        assert_eq!(
            problem(vec![pool("a", 1.0, &[1, 1], 1.0, 0.0)]),
            "pool `a`: offering 1 draws on a pool already"
        );
        assert_eq!(
            problem(vec![
                pool("a", 1.0, &[1], 1.0, 0.0),
                pool("b", 1.0, &[1], 1.0, 0.0)
            ]),
            "pool `b`: offering 1 draws on a pool already"
        );
        assert_eq!(
            problem(vec![
                pool("a", 1.0, &[], 1.0, 0.0),
                pool("a", 1.0, &[], 1.0, 0.0)
            ]),
            "pool `a`: declared twice"
        );
        assert_eq!(
            problem(vec![pool("a", 1.0, &[1], 0.0, 0.0)]),
            "pool `a`: offering 1 takes 0; expected a finite number above 0"
        );
        assert_eq!(
            problem(vec![pool("a", 1.0, &[1], 1.0, f64::NAN)]),
            "pool `a`: offering 1 costs NaN inside; expected a finite number, 0 or more"
        );
        let uneven = RawPool {
            amounts: vec![],
            ..pool("a", 1.0, &[1], 1.0, 0.0)
        };
        assert_eq!(
            problem(vec![uneven]),
            "pool `a`: columns of different lengths: (1, 0, 1)"
        );
    }
}
