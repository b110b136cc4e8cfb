//! CEL: what an offering costs is an expression of its settings.
//!
//! The expression is compiled once, when the policy takes its settings, and evaluated over whole
//! columns. `longshore-expression` has the language; this policy gives it the columns of the
//! contract, and sees to it that an answer is one that the host takes.

use std::rc::Rc;

use longshore_expression::columns::{
    Columns, Numbers, OneNumber, OneText, Program, Source, Table, Texts,
};
use longshore_sdk::{
    About, PerEdition, Scorer, chain, joined, labels, log, node_pool, offerings, request,
    resources, signals,
};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    expression: String,
}

struct Cel {
    program: Program,
    kept: PerEdition<Static>,
}

/// Static columns that the expression has read.
#[derive(Default)]
struct Static {
    numbers: Vec<(Numbers, Vec<f64>)>,
    texts: Vec<(Texts, Rc<Table>)>,
    has_warned: bool,
}

impl Scorer for Cel {
    const ABOUT: About = About {
        name: "cel",
        version: env!("CARGO_PKG_VERSION"),
        summary: "An offering costs what an expression in CEL says.",
        signals: &[],
        settings_schema: include_str!("settings.schema.json"),
    };
    type Settings = Settings;

    /// Which signals an expression names is not known before it is configured.
    const ANNOTATIONS: &'static [(&'static str, &'static str)] = &[("signals", "as-granted")];

    fn new(settings: Settings) -> Result<Self, String> {
        let program = Program::compile(&settings.expression)
            .map_err(|refused| format!("`expression`: {refused}; {}", refused.hint))?;
        Ok(Cel {
            program,
            kept: PerEdition::new(),
        })
    }

    fn score(&mut self) -> Result<Vec<f64>, String> {
        let kept = self.kept.get_mut(Static::default);
        if !std::mem::replace(&mut kept.has_warned, true) {
            warn_of_absent_signals(&self.program);
        }
        let mut costs = self.program.evaluate(&mut Catalogue { kept });
        make_valid(&mut costs)?;
        Ok(costs)
    }
}

/// Makes costs of numbers: one below 0 is 0, as no cost is less.
///
/// # Errors
/// An offering has no number, and no policy before has excluded it.
fn make_valid(costs: &mut [f64]) -> Result<(), String> {
    // Eight at a time: the host counts fuel at the end of each turn of a loop.
    let are_right = |costs: &[f64]| costs.iter().fold(true, |all, cost| all & (*cost >= 0.0));
    if costs.chunks(8).all(are_right) {
        return Ok(());
    }
    let before = chain::costs();
    for (row, cost) in costs.iter_mut().enumerate() {
        if !cost.is_nan() {
            *cost = cost.max(0.0);
        } else if before[row] == f64::INFINITY {
            // Infinity times zero is no number.
            *cost = f64::INFINITY;
        } else {
            return Err(format!(
                "the expression gives no number for {}: divide by nothing that can be 0, and ask \
                 has(…) before double(…)",
                offering(row)
            ));
        }
    }
    Ok(())
}

fn offering(row: usize) -> String {
    let name = |names: Vec<String>, rows: Vec<u32>| names[rows[row] as usize].clone();
    format!(
        "{} in {} ({})",
        name(
            offerings::instance_type_names(),
            offerings::instance_types()
        ),
        name(offerings::zone_names(), offerings::zones()),
        name(
            offerings::capacity_type_names(),
            offerings::capacity_types()
        ),
    )
}

/// Says which signals count for nothing, as the host has no table that this policy may read.
fn warn_of_absent_signals(program: &Program) {
    for source in program.sources() {
        if let Source::Numbers(Numbers::Signal { name, otherwise }) = source
            && signals::get(name).is_none()
        {
            log::warn(&format!(
                "signal `{name}` is not there, and {otherwise} counts for all offerings: it has to \
                 be in `[signals]` and in `signals` of this policy"
            ));
        }
    }
}

/// The columns of the contract.
struct Catalogue<'a> {
    kept: &'a mut Static,
}

/// What is kept of a source, pulled if it is not there yet.
fn keep<S: Clone + PartialEq, T: Clone>(all: &mut Vec<(S, T)>, of: &S, pull: impl Fn() -> T) -> T {
    let known = all.iter().position(|(source, _)| source == of);
    let at = known.unwrap_or_else(|| {
        all.push((of.clone(), pull()));
        all.len() - 1
    });
    all[at].1.clone()
}

fn floats(column: Vec<u32>) -> Vec<f64> {
    column.into_iter().map(f64::from).collect()
}

impl Columns for Catalogue<'_> {
    fn count(&self) -> usize {
        offerings::count() as usize
    }

    fn numbers(&mut self, of: &Numbers) -> Vec<f64> {
        let all = &mut self.kept.numbers;
        match of {
            Numbers::Cost => chain::costs(),
            Numbers::Price => offerings::prices(),
            Numbers::ReservationCount => floats(offerings::reservation_counts()),
            Numbers::Signal { name, otherwise } => joined::column_or(name, *otherwise),
            Numbers::CpuMillicores => keep(all, of, || floats(offerings::cpu_millicores())),
            Numbers::MemoryMib => keep(all, of, || floats(offerings::memory_mib())),
            Numbers::Capacity(name) => keep(all, of, || resources::capacity(name)),
            Numbers::Allocatable(name) => keep(all, of, || resources::allocatable(name)),
        }
    }

    fn texts(&mut self, of: &Texts) -> Rc<Table> {
        keep(&mut self.kept.texts, of, || {
            let (texts, rows) = match of {
                Texts::InstanceType => (
                    offerings::instance_type_names(),
                    offerings::instance_types(),
                ),
                Texts::Zone => (offerings::zone_names(), offerings::zones()),
                Texts::CapacityType => (
                    offerings::capacity_type_names(),
                    offerings::capacity_types(),
                ),
                Texts::Architecture => {
                    (offerings::architecture_names(), offerings::architectures())
                }
                Texts::Reservation => (offerings::reservation_names(), offerings::reservations()),
                Texts::Label(key) => (labels::values(key), labels::rows(key)),
            };
            Rc::new(Table { texts, rows })
        })
    }

    fn available(&mut self) -> Vec<bool> {
        offerings::available()
            .into_iter()
            .map(|is| is == 1)
            .collect()
    }

    fn number(&mut self, of: &OneNumber) -> f64 {
        match of {
            OneNumber::Now => request::now(),
            OneNumber::Weight => f64::from(node_pool::weight()),
        }
    }

    fn text(&mut self, of: &OneText) -> String {
        let value = |all: Vec<(String, String)>, key: &str| {
            let found = all.into_iter().find(|(have, _)| have == key);
            found.map_or(String::new(), |(_, value)| value)
        };
        match of {
            OneText::NodePool => node_pool::name(),
            OneText::Label(key) => value(node_pool::labels(), key),
            OneText::Annotation(key) => value(node_pool::annotations(), key),
        }
    }
}

longshore_sdk::export_scorer!(Cel);

#[cfg(test)]
mod tests {
    use longshore_sdk::testing::{Offering, with, with_signal};

    use super::*;

    fn cel(expression: &str) -> Result<Cel, String> {
        let expression = expression.to_owned();
        Cel::new(Settings { expression })
    }

    /// The offerings of golden.tsv.
    fn offerings() -> [Offering; 4] {
        let on_demand = Offering::default();
        [
            on_demand.clone(),
            Offering {
                zone: "us-east-1b",
                capacity_type: "spot",
                price: 0.03,
                ..on_demand.clone()
            },
            Offering {
                instance_type: "g6.xlarge",
                architecture: "amd64",
                cpu_millicores: 4000,
                memory_mib: 16384,
                gpus: 1,
                price: 0.8048,
                ..on_demand.clone()
            },
            Offering {
                capacity_type: "reserved",
                price: 0.0,
                reservation: Some(("cr-1", 3)),
                ..on_demand
            },
        ]
    }

    #[test]
    fn golden_vectors() {
        for line in include_str!("golden.tsv").lines() {
            let Some((expression, expected)) = line.split_once('\t') else {
                continue;
            };
            let costs = with(&offerings(), || cel(expression).unwrap().score().unwrap());
            let shown: Vec<String> = costs.iter().map(|cost| format!("{cost:.6}")).collect();
            assert_eq!(shown.join(" "), expected, "{expression}");
        }
    }

    #[test]
    fn a_signal_is_a_column() {
        let costs = with_signal("carbon", &[("us-east-1b", 0.5)], || {
            with(&offerings(), || {
                cel("cost + signal('carbon', 0.25)").unwrap().score()
            })
        });
        assert_eq!(costs.unwrap(), [0.3316, 0.53, 1.0548, 0.25]);
    }

    #[test]
    fn what_is_excluded_stays_so_and_a_cost_is_at_least_0() {
        let excluded = Offering {
            cost: Some(f64::INFINITY),
            ..Offering::default()
        };
        let rows = [excluded, Offering::default()];
        let score = |expression: &str| with(&rows, || cel(expression).unwrap().score().unwrap());
        assert_eq!(score("cost * 0"), [f64::INFINITY, 0.0]);
        assert_eq!(score("cost - 1"), [f64::INFINITY, 0.0]);
        assert_eq!(score("-infinity"), [0.0, 0.0]);
        assert_eq!(
            score("cost - cost + 1"),
            [f64::INFINITY, 1.0],
            "infinity less infinity is no number"
        );
    }

    #[test]
    fn an_offering_without_a_number_is_named() {
        let score = |expression: &str| with(&offerings(), || cel(expression).unwrap().score());
        assert_eq!(
            score("cost / resources['nvidia.com/gpu'] * resources['nvidia.com/gpu']"),
            Err(
                "the expression gives no number for m7g.large in us-east-1a (on-demand): divide by \
                 nothing that can be 0, and ask has(…) before double(…)"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_fault_has_column_and_hint() {
        assert_eq!(
            cel("cost * 0.9 + (capacity_typ == 'spot' ? 0.02 : 0)").err(),
            Some(
                "`expression`: column 15: capacity_typ is not a known name; did you mean \
                 `capacity_type`?"
                    .to_owned()
            )
        );
    }
}
