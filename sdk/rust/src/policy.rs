//! The traits of a policy, and the macros that make a component of it.

use serde::de::DeserializeOwned;

/// What a policy says about itself.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name: lower case letters, digits and `-`.
    pub name: &'static str,
    /// Its version, semver; `env!("CARGO_PKG_VERSION")` does.
    pub version: &'static str,
    /// One sentence for people.
    pub summary: &'static str,
    /// The signals that it reads.
    pub signals: &'static [SignalUse],
    /// JSON Schema of its settings, or the empty string for none; wit/policy@0.1.0/plugin.wit says
    /// what of it the host checks.
    pub settings_schema: &'static str,
}

/// A signal that a policy reads.
#[derive(Clone, Copy, Debug)]
pub struct SignalUse {
    /// Its name.
    pub name: &'static str,
    /// Whether the policy is of no use without it.
    pub required: bool,
    /// Older numbers than this, in seconds, are too old for it; 0 for any age.
    pub max_age: f64,
}

impl SignalUse {
    /// One that it can do without, of any age.
    pub const fn named(name: &'static str) -> Self {
        SignalUse {
            name,
            required: false,
            max_age: 0.0,
        }
    }
}

/// Says what offerings cost.
pub trait Scorer: Sized + 'static {
    /// Name, version and summary of the policy.
    const ABOUT: About;
    /// What an operator sets. Refuse unknown keys (`#[serde(deny_unknown_fields)]`); default what
    /// can be defaulted.
    type Settings: DeserializeOwned;

    /// Keys and values for the host. `signals` = `as-granted`: its settings name the signals that it
    /// reads, so that it sees those that the operator's entry names.
    const ANNOTATIONS: &'static [(&'static str, &'static str)] = &[];

    /// A scorer with these settings, or what is wrong with them and what would be right.
    fn new(settings: Self::Settings) -> Result<Self, String>;

    /// The effective cost of every offering in USD per hour, in order: 0 or more, infinite to
    /// exclude.
    fn score(&mut self) -> Result<Vec<f64>, String>;
}

/// Knows of amounts that are prepaid, finite and shared.
pub trait Commitments: Scorer {
    /// The pools, asked right after [`Scorer::score`].
    fn pools(&mut self) -> Result<Vec<Pool>, String>;
}

/// A prepaid amount and the offerings that draw on it. Of several pools for an offering the first that
/// has enough counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// What reports call it; unique.
    pub name: String,
    /// What is left, in the pool's own unit.
    pub remaining: f64,
    /// Rows of offerings.
    pub offerings: Vec<u32>,
    /// What one node of each takes; above 0.
    pub amounts: Vec<f64>,
    /// The effective cost of a node that draws, USD per hour.
    pub costs: Vec<f64>,
}

impl Pool {
    /// Adds an offering.
    pub fn draw(&mut self, offering: u32, amount: f64, cost: f64) {
        self.offerings.push(offering);
        self.amounts.push(amount);
        self.costs.push(cost);
    }
}

/// Says which nodes are disrupted, and when. The rules of NodePools are the floor: nothing that is
/// answered allows what they forbid.
pub trait Consolidation: Sized + 'static {
    /// Name, version and summary of the policy.
    const ABOUT: About;
    /// What an operator sets; see [`Scorer::Settings`].
    type Settings: DeserializeOwned;

    /// A policy with these settings, or what is wrong with them and what would be right.
    fn new(settings: Self::Settings) -> Result<Self, String>;

    /// USD per hour that removing each of [`nodes`](crate::nodes) has to save beside what is counted
    /// anyway: 0 or more, infinite for never. Asked once in a round, before the search.
    fn weigh(&mut self) -> Result<Vec<f64>, String> {
        Ok(vec![0.0; crate::nodes::count() as usize])
    }

    /// A decision for each of [`proposals`](crate::proposals). Asked after each method that found
    /// any.
    fn decide(&mut self) -> Result<Vec<Decision>, String>;
}

/// What becomes of a proposal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Higher ones get the budget first; below 0 is a no.
    pub priority: f64,
    /// Not before this time, seconds since 1970; at most a day ahead, 0 for now.
    pub not_before: f64,
    /// Why, for people.
    pub reason: String,
}

impl Decision {
    /// It may happen, higher priorities first.
    pub fn yes(priority: f64, reason: impl Into<String>) -> Self {
        Decision {
            priority: priority.max(0.0),
            not_before: 0.0,
            reason: reason.into(),
        }
    }

    /// It may not happen.
    pub fn no(reason: impl Into<String>) -> Self {
        Decision {
            priority: -1.0,
            not_before: 0.0,
            reason: reason.into(),
        }
    }

    /// It may not happen before a time. What lies more than a day ahead is put off by a day, and
    /// asked again then.
    pub fn later(not_before: f64, reason: impl Into<String>) -> Self {
        Decision {
            priority: 0.0,
            not_before: not_before.min(crate::request::now() + 86_400.0),
            reason: reason.into(),
        }
    }
}

/// A consolidation policy from settings as the host hands them over.
#[doc(hidden)]
pub fn configured_consolidation<C: Consolidation>(settings: &str) -> Result<C, String> {
    C::new(serde_json::from_str(settings).map_err(|error| error.to_string())?)
}

/// A scorer from settings as the host hands them over.
#[doc(hidden)]
pub fn configured<S: Scorer>(settings: &str) -> Result<S, String> {
    S::new(serde_json::from_str(settings).map_err(|error| error.to_string())?)
}

/// Gives panics a voice; without it a policy's last words are lost.
#[doc(hidden)]
pub fn speak_on_panic() {
    std::panic::set_hook(Box::new(|panic| crate::log::error(&panic.to_string())));
}

/// Makes a component of a [`Scorer`]. On other targets than `wasm32` it does nothing.
#[macro_export]
macro_rules! export_scorer {
    ($scorer:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            $crate::__export_scorer!($scorer);
        };
        // Elsewhere it has no caller; this prevents a warning about dead code.
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn(&str) -> Result<$scorer, String> = $crate::policy::configured::<$scorer>;
    };
}

/// Makes a component of a [`Scorer`] with [`Commitments`]. On other targets than `wasm32` it does
/// nothing.
#[macro_export]
macro_rules! export_commitments {
    ($scorer:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::commitments::exports::longshore::policy::commitments;

            $crate::__export_scorer!($scorer);

            impl commitments::Guest for Exported {
                fn pools() -> Result<Vec<commitments::Pool>, String> {
                    let pools = with(|scorer| $crate::Commitments::pools(scorer))?;
                    let raw = pools.into_iter().map(|pool| commitments::Pool {
                        name: pool.name,
                        remaining: pool.remaining,
                        offerings: pool.offerings,
                        amounts: pool.amounts,
                        costs: pool.costs,
                    });
                    Ok(raw.collect())
                }
            }

            $crate::bindings::commitments::export_commitments_ability!(Exported with_types_in $crate::bindings::commitments);
        };
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn(&str) -> Result<$scorer, String> = $crate::policy::configured::<$scorer>;
    };
}

/// Makes a component of a [`Consolidation`]. On other targets than `wasm32` it does nothing.
#[macro_export]
macro_rules! export_consolidation {
    ($policy:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::consolidation::exports::longshore::consolidation::consolidation;
            use $crate::bindings::plugin::exports::longshore::policy::plugin;

            struct Exported;

            ::std::thread_local! {
                static POLICY: ::std::cell::RefCell<Option<$policy>> =
                    const { ::std::cell::RefCell::new(None) };
            }

            fn with<T>(
                ask: impl FnOnce(&mut $policy) -> Result<T, String>,
            ) -> Result<T, String> {
                POLICY.with_borrow_mut(|policy| {
                    ask(policy.as_mut().ok_or("asked before it was configured")?)
                })
            }

            impl plugin::Guest for Exported {
                fn describe() -> plugin::Description {
                    let about = <$policy as $crate::Consolidation>::ABOUT;
                    plugin::Description {
                        name: about.name.to_owned(),
                        version: about.version.to_owned(),
                        summary: about.summary.to_owned(),
                        signals: about.signals.iter().map(|of| plugin::SignalUse {
                            name: of.name.to_owned(),
                            required: of.required,
                            max_age: of.max_age,
                        }).collect(),
                        settings_schema: about.settings_schema.to_owned(),
                        annotations: Vec::new(),
                    }
                }

                fn configure(settings: String) -> Result<(), String> {
                    $crate::policy::speak_on_panic();
                    let policy = $crate::policy::configured_consolidation(&settings)?;
                    POLICY.set(Some(policy));
                    Ok(())
                }
            }

            impl consolidation::Guest for Exported {
                fn weigh() -> Result<Vec<f64>, String> {
                    with(|policy| $crate::Consolidation::weigh(policy))
                }

                fn decide() -> Result<Vec<consolidation::Decision>, String> {
                    let decisions = with(|policy| $crate::Consolidation::decide(policy))?;
                    let raw = decisions.into_iter().map(|decision| consolidation::Decision {
                        priority: decision.priority,
                        not_before: decision.not_before,
                        reason: decision.reason,
                    });
                    Ok(raw.collect())
                }
            }

            $crate::bindings::plugin::export_plugin_ability!(Exported with_types_in $crate::bindings::plugin);
            $crate::bindings::consolidation::export_consolidation_ability!(Exported with_types_in $crate::bindings::consolidation);
        };
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn(&str) -> Result<$policy, String> =
            $crate::policy::configured_consolidation::<$policy>;
    };
}

/// `plugin` and `scorer`, exported by a type `Exported`; `with` reaches the policy.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_scorer {
    ($scorer:ty) => {
        use $crate::bindings::plugin::exports::longshore::policy::plugin;
        use $crate::bindings::scorer::exports::longshore::policy::scorer;

        struct Exported;

        ::std::thread_local! {
            static POLICY: ::std::cell::RefCell<Option<$scorer>> = const { ::std::cell::RefCell::new(None) };
        }

        fn with<T>(ask: impl FnOnce(&mut $scorer) -> Result<T, String>) -> Result<T, String> {
            POLICY.with_borrow_mut(|policy| ask(policy.as_mut().ok_or("asked before it was \
                configured")?))
        }

        impl plugin::Guest for Exported {
            fn describe() -> plugin::Description {
                let about = <$scorer as $crate::Scorer>::ABOUT;
                plugin::Description {
                    name: about.name.to_owned(),
                    version: about.version.to_owned(),
                    summary: about.summary.to_owned(),
                    signals: about.signals.iter().map(|of| plugin::SignalUse {
                        name: of.name.to_owned(),
                        required: of.required,
                        max_age: of.max_age,
                    }).collect(),
                    settings_schema: about.settings_schema.to_owned(),
                    annotations: <$scorer as $crate::Scorer>::ANNOTATIONS
                        .iter()
                        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                        .collect(),
                }
            }

            fn configure(settings: String) -> Result<(), String> {
                $crate::policy::speak_on_panic();
                let policy = $crate::policy::configured(&settings)?;
                POLICY.set(Some(policy));
                Ok(())
            }
        }

        impl scorer::Guest for Exported {
            fn score() -> Result<Vec<f64>, String> {
                with(|scorer| $crate::Scorer::score(scorer))
            }
        }

        $crate::bindings::plugin::export_plugin_ability!(Exported with_types_in $crate::bindings::plugin);
        $crate::bindings::scorer::export_scorer_ability!(Exported with_types_in $crate::bindings::scorer);
    };
}
