//! One instance of a policy: its store, its answers, and their validation.
//!
//! Nothing that comes out of a guest is trusted. The owner drops an instance after any failure:
//! after a trap it cannot be entered again, and after a failed copy it may have leaked.

pub(crate) mod answer;
mod judge;
pub(crate) mod scores;
mod traps;

use std::sync::Arc;
use std::time::Instant;

use wasmtime::component::{Lift, TypedFunc};
use wasmtime::{Store, Trap, WasmBacktrace};

use crate::answer_cache::{KeptAnswers, RawScores, Reads};
use crate::bootstrap::functions::BootFunctions;
use crate::engine::{Limits, TICK, ticks};
use crate::guest_text::{MAX_ERROR_CHARS, cut};
use crate::imports::state::{Message, StoreData, TooManyCalls};
use crate::limiter::{CORE_INSTANCES, MEMORIES, TABLES, TooMuchMemory};
use crate::loaded::Loaded;
use crate::report::CallUsage;
use crate::round_budget::RoundBudget;
use crate::score_request::ScoreRequest;
use answer::{Answer, CallError, RawAbout};
use scores::{RawPool, checked_costs, checked_pools};

/// An instance of a policy.
pub(crate) struct Instance {
    store: Store<StoreData>,
    limits: Limits,
    budget: RoundBudget,
    /// The most that a call used, since last asked.
    usage: CallUsage,
    describe: TypedFunc<(), (RawAbout,)>,
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
        Instance::within(loaded, RoundBudget::NONE)
    }

    /// As [`Instance::new`], with a budget for that and all calls.
    pub fn within(loaded: &Loaded, mut budget: RoundBudget) -> Result<Self, CallError> {
        let limits = loaded.limits;
        let state = StoreData {
            request: loaded.nothing.clone(),
            reads: Reads::default(),
            visible: loaded.visible.clone(),
            cluster: Arc::default(),
            proposals: Arc::default(),
            boot: Arc::default(),
            built_in: Arc::default(),
            kind: Arc::default(),
            limits: limits.store(),
            host_calls: 0,
            log_room: 0,
            messages_left: 0,
            messages: Vec::new(),
            last_said: String::new(),
        };
        let mut store = Store::new(loaded.pre.engine(), state);
        store.limiter(|state| &mut state.limits);
        allow(&mut store, &limits, &budget, 0)
            .map_err(|error| failure("instantiate", &error, &store, &limits, 0))?;
        let begun = Instant::now();
        let made = loaded.pre.instantiate(&mut store).and_then(|instance| {
            let function = |store: &mut Store<StoreData>, index| {
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
                usage: CallUsage::default(),
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
    pub fn budget(&self) -> RoundBudget {
        self.budget
    }

    /// Asks for its identity.
    pub fn describe(&mut self) -> Result<RawAbout, CallError> {
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
        self.store.data_mut().request = request.clone();
    }

    /// Costs and commitment pools for the request set, as they are answered.
    pub fn score(&mut self) -> Result<RawScores, CallError> {
        let rows = self.store.data().request.columns.count();
        let Some(score) = self.score else {
            return Err(CallError::Answer {
                asked: "score",
                problem: "the policy does not export `scorer`".to_owned(),
            });
        };
        self.has_signals("score")?;
        let mut cost = self.ask("score", score, rows)?;
        checked_costs(&mut cost, rows).map_err(|fault| CallError::Costs {
            asked: "score",
            fault,
        })?;
        let pools = match self.pools {
            Some(pools) => self.ask("pools", pools, rows)?,
            None => Vec::new(),
        };
        let pools = checked_pools(pools, rows).map_err(|problem| CallError::Answer {
            asked: "pools",
            problem,
        })?;
        let cost = cost.into();
        Ok(RawScores { cost, pools })
    }

    /// Fails where a signal that the policy requires is not there, or too old.
    fn has_signals(&self, asked: &'static str) -> Result<(), CallError> {
        let StoreData {
            request, visible, ..
        } = self.store.data();
        match visible.lacks(&request.signals, request.now) {
            None => Ok(()),
            Some(what) => Err(CallError::Signal { asked, what }),
        }
    }

    /// Keeps track of what the next question reads.
    pub fn follow_reads(&mut self) {
        self.store.data_mut().reads.begin();
    }

    /// Keeps what was answered, if it said nothing beside: what was said would be said once only.
    pub fn keep(&mut self, answer: &RawScores, kept: &mut KeptAnswers) {
        let state = self.store.data_mut();
        if state.messages.is_empty() {
            kept.keep(&mut state.reads, answer);
        }
    }

    /// What it offers as a bootstrap policy, and its data.
    pub fn boot(&mut self) -> (Option<BootFunctions>, &mut StoreData) {
        (self.boot, self.store.data_mut())
    }

    /// The most that a call used, since last asked.
    pub fn take_usage(&mut self) -> CallUsage {
        std::mem::take(&mut self.usage)
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
        let before = self.budget.fuel;
        let answer = allow(&mut self.store, &self.limits, &self.budget, rows)
            .and_then(|()| f.call(&mut self.store, with));
        self.budget.spend(&self.store, &self.limits, rows, begun);
        let used = before.saturating_sub(self.budget.fuel);
        let permille = used.saturating_mul(1000) / self.limits.fuel_for(rows).max(1);
        self.usage.add(CallUsage {
            longest: begun.elapsed(),
            fuel_permille: u32::try_from(permille).unwrap_or(u32::MAX),
            memory: self.store.data().limits.taken,
        });
        answer.map_err(|error| {
            let error = failure(asked, &error, &self.store, &self.limits, rows);
            self.budget.blamed(error)
        })
    }
}

impl RoundBudget {
    /// Takes off what a call has used.
    fn spend(&mut self, store: &Store<StoreData>, limits: &Limits, rows: usize, begun: Instant) {
        let given = limits.fuel_for(rows).min(self.fuel);
        let used = given.saturating_sub(store.get_fuel().unwrap_or(0));
        self.fuel = self.fuel.saturating_sub(used);
        let state = store.data();
        let said = (limits.messages.min(self.messages)).saturating_sub(state.messages_left);
        let bytes = limits.log.min(self.log).saturating_sub(state.log_room);
        (self.messages, self.log) = (self.messages - said, self.log - bytes);
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
    store: &mut Store<StoreData>,
    limits: &Limits,
    budget: &RoundBudget,
    rows: usize,
) -> wasmtime::Result<()> {
    store.set_fuel(limits.fuel_for(rows).min(budget.fuel))?;
    store.set_epoch_deadline(ticks(limits.time.min(budget.time)));
    store.set_hostcall_fuel(limits.answer_for(rows));
    let state = store.data_mut();
    state.host_calls = limits.host_calls;
    state.log_room = limits.log.min(budget.log);
    state.messages_left = limits.messages.min(budget.messages);
    state.last_said.clear();
    Ok(())
}

/// What a failed call means. Kinds without a type of their own are recognised by wasmtime's
/// message.
fn failure(
    asked: &'static str,
    error: &wasmtime::Error,
    store: &Store<StoreData>,
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
    if error.downcast_ref::<TooMuchMemory>().is_some() || words.contains("exceeds memory limits") {
        return CallError::Memory {
            asked,
            limit: limits.memory,
        };
    }
    if words.contains("resource limit exceeded") {
        return CallError::Trap {
            asked,
            reason: format!(
                "{words}; a policy has at most {CORE_INSTANCES} core instances, {MEMORIES} memories \
                 and {TABLES} tables"
            ),
        };
    }
    if words.contains("too much data is being copied") {
        return CallError::TooLarge {
            asked,
            limit: limits.answer_for(rows),
        };
    }
    let said = match store.data().last_said.as_str() {
        "" => String::new(),
        text => format!("; it said: {text}"),
    };
    let frames = error.downcast_ref::<WasmBacktrace>();
    let frames = frames.map(WasmBacktrace::frames).unwrap_or_default();
    let called = traps::called(frames.iter().filter_map(|frame| frame.func_name()));
    let called = called.map_or(String::new(), |what| format!("; {what}"));
    CallError::Trap {
        asked,
        reason: cut(words, MAX_ERROR_CHARS) + &called + &said,
    }
}
