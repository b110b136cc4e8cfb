//! Answers that are given again as long as all that they were made of is the same.
//!
//! A policy is a function of what it calls. So the first answer of an instance holds for every other
//! question about which these calls would answer the same: for another NodePool, or in a later round.
//! That is exact for every language and needs no declaration. Later answers of an instance are not
//! kept: what it remembers of earlier questions is not known here.

use std::collections::BTreeSet;
use std::sync::Arc;

use longshore_core::policy::CommitmentPool;

use crate::columns::Table;
use crate::imports::interface::strings;
use crate::score_request::{Pairs, ScoreRequest};
use crate::signals::{DeclaredSignals, Signal};

/// Answers that are kept of a version.
const MAX_KEPT: usize = 4;
/// Different calls of one question that are kept track of; an answer made of more is not kept.
const MAX_READS: usize = 128;

/// What a scorer may read: the question, and which signals it sees of it.
pub(crate) struct View<'a> {
    pub request: &'a ScoreRequest,
    pub visible: &'a DeclaredSignals,
}

impl View<'_> {
    /// A signal, if the policy may read that and it is not too old.
    pub fn signal(&self, name: &str) -> Option<&Signal> {
        let request = self.request;
        self.visible.get(name, &request.signals, request.now)
    }
}

/// What a function answers, for whether it would answer the same.
pub(crate) trait Value: Clone + Send + Sync + 'static {
    /// Whether two are the same, to the last bit.
    fn is_same(&self, other: &Self) -> bool;

    /// What it takes in a guest beside a number.
    fn bytes(&self) -> usize;
}

/// A call, and what it answered.
trait Read: Send + Sync {
    fn holds(&self, view: &View<'_>) -> bool;
}

/// A function of a question.
pub(crate) type Get<T> = Arc<dyn Fn(&View<'_>, &str) -> T + Send + Sync>;

struct Call<T> {
    get: Get<T>,
    argument: String,
    answered: T,
}

impl<T: Value> Read for Call<T> {
    fn holds(&self, view: &View<'_>) -> bool {
        (self.get)(view, &self.argument).is_same(&self.answered)
    }
}

/// The calls of one question.
#[derive(Default)]
pub(crate) struct Reads {
    all: Vec<Arc<dyn Read>>,
    /// The function and argument of each.
    known: BTreeSet<(usize, String)>,
    state: Keeping,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Keeping {
    #[default]
    Off,
    On,
    TooMany,
}

impl Reads {
    /// Keeps track from now on.
    pub fn begin(&mut self) {
        *self = Reads {
            state: Keeping::On,
            ..Reads::default()
        };
    }

    /// Notes a call.
    pub fn note<T: Value>(&mut self, get: &Get<T>, argument: &str, answered: &T) {
        if self.state != Keeping::On {
            return;
        }
        let function = Arc::as_ptr(get).cast::<()>() as usize;
        if !self.known.insert((function, argument.to_owned())) {
            return;
        }
        if self.known.len() > MAX_READS {
            self.state = Keeping::TooMany;
            self.all.clear();
            return;
        }
        self.all.push(Arc::new(Call {
            get: get.clone(),
            argument: argument.to_owned(),
            answered: answered.clone(),
        }));
    }

    /// All calls since tracking began; nothing if they are not all known.
    fn take(&mut self) -> Option<Vec<Arc<dyn Read>>> {
        let all = std::mem::take(self);
        (all.state == Keeping::On).then_some(all.all)
    }
}

/// What a scorer answered, before anything of it was changed.
#[derive(Clone)]
pub(crate) struct RawScores {
    pub cost: Arc<[f64]>,
    pub pools: Vec<CommitmentPool>,
}

/// An answer, and all that it was made of.
#[derive(Clone)]
struct Kept {
    reads: Vec<Arc<dyn Read>>,
    answer: RawScores,
}

/// The answers of a version that are kept, the latest first.
#[derive(Clone, Default)]
pub(crate) struct KeptAnswers(Vec<Kept>);

impl KeptAnswers {
    /// The answer to a question, if one that is kept holds for it.
    pub fn get(&self, view: &View<'_>) -> Option<RawScores> {
        let rows = view.request.columns.count();
        let lacks = view.visible.lacks(&view.request.signals, view.request.now);
        if lacks.is_some() {
            return None;
        }
        // An answer has a row for each offering, whatever it was made of.
        let holds = |kept: &&Kept| {
            kept.answer.cost.len() == rows && kept.reads.iter().all(|read| read.holds(view))
        };
        self.0.iter().find(holds).map(|kept| kept.answer.clone())
    }

    /// Keeps an answer, if all that it was made of is known.
    pub fn keep(&mut self, reads: &mut Reads, answer: &RawScores) {
        if let Some(reads) = reads.take() {
            let answer = answer.clone();
            self.0.insert(0, Kept { reads, answer });
            self.0.truncate(MAX_KEPT);
        }
    }
}

macro_rules! values {
    ($($type:ty: $same:expr, $bytes:expr;)*) => {$(
        impl Value for $type {
            fn is_same(&self, other: &Self) -> bool {
                let same: fn(&Self, &Self) -> bool = $same;
                same(self, other)
            }

            fn bytes(&self) -> usize {
                let bytes: fn(&Self) -> usize = $bytes;
                bytes(self)
            }
        }
    )*};
}

values! {
    u32: |one, other| one == other, |_| 0;
    f64: |one, other| one.to_bits() == other.to_bits(), |_| 0;
    Arc<str>: |one, other| one == other, |text| text.len();
    Arc<[u8]>: |one, other| Arc::ptr_eq(one, other) || one == other, |all| all.len();
    Arc<[u32]>: |one, other| Arc::ptr_eq(one, other) || one == other, |all| 4 * all.len();
    Arc<[f64]>: same_bits, |all| 8 * all.len();
    Pairs: |one, other| Arc::ptr_eq(one, other) || one == other, |all| {
        all.iter().map(|(key, value)| key.len() + value.len() + 16).sum()
    };
    Table: |one, other| Arc::ptr_eq(one, other) || one == other, |all| strings(all);
}

fn same_bits(one: &Arc<[f64]>, other: &Arc<[f64]>) -> bool {
    let same = || {
        let mut pairs = one.iter().zip(other.iter());
        pairs.all(|(one, other)| one.to_bits() == other.to_bits())
    };
    Arc::ptr_eq(one, other) || (one.len() == other.len() && same())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(node_pool: &str, now: f64) -> ScoreRequest {
        ScoreRequest {
            node_pool: node_pool.into(),
            now,
            ..ScoreRequest::nothing()
        }
    }

    #[test]
    fn an_answer_holds_as_long_as_all_that_was_called_answers_the_same() {
        let (none, raw) = (
            DeclaredSignals::default(),
            RawScores {
                cost: Arc::default(),
                pools: Vec::new(),
            },
        );
        let now: Get<f64> = Arc::new(|view, _| view.request.now);
        let name: Get<Arc<str>> = Arc::new(|view, _| view.request.node_pool.clone());
        let mut reads = Reads::default();
        reads.begin();
        reads.note(&now, "", &7.0);
        reads.note(&now, "", &7.0);
        let mut kept = KeptAnswers::default();
        kept.keep(&mut reads, &raw);
        let holds = |kept: &KeptAnswers, pool: &str, now: f64| {
            let request = request(pool, now);
            let view = View {
                request: &request,
                visible: &none,
            };
            kept.get(&view).is_some()
        };
        assert!(holds(&kept, "a", 7.0) && holds(&kept, "b", 7.0));
        assert!(!holds(&kept, "a", 8.0));
        // One that asked for the name of the NodePool, too.
        reads.begin();
        reads.note(&now, "", &9.0);
        reads.note(&name, "", &"a".into());
        kept.keep(&mut reads, &raw);
        assert!(holds(&kept, "a", 9.0) && !holds(&kept, "b", 9.0));
        assert!(holds(&kept, "b", 7.0), "the one before is there as well");
    }

    #[test]
    fn what_is_made_of_too_much_or_was_not_followed_is_not_kept() {
        let get: Get<u32> = Arc::new(|_, _| 0);
        let raw = RawScores {
            cost: Arc::default(),
            pools: Vec::new(),
        };
        let mut kept = KeptAnswers::default();
        let mut reads = Reads::default();
        reads.note(&get, "", &0);
        kept.keep(&mut reads, &raw);
        reads.begin();
        (0..=MAX_READS).for_each(|at| reads.note(&get, &at.to_string(), &0));
        kept.keep(&mut reads, &raw);
        assert!(kept.0.is_empty());
        for _ in 0..9 {
            reads.begin();
            kept.keep(&mut reads, &raw);
        }
        assert_eq!(kept.0.len(), MAX_KEPT);
    }
}
