//! Parameters of the query protocol: `Filter.1.Value.2=running`, read by name.
//!
//! Parameters that were asked for are remembered. So a parameter that the emulator does not read
//! becomes an error and is never passed over.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::str::FromStr;

use super::error::Refusal;

/// All parameters of a request, by full name.
#[derive(Clone, Debug, Default)]
pub struct Params {
    all: BTreeMap<String, String>,
    read: RefCell<BTreeSet<String>>,
}

impl Params {
    /// Parameters of a form. The last value of a name counts.
    pub fn parse(form: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(form);
        let pairs = pairs.map(|(name, value)| (name.into_owned(), value.into_owned()));
        Params::from(pairs.collect::<BTreeMap<_, _>>())
    }

    /// Everything, by name.
    pub fn all(&self) -> &BTreeMap<String, String> {
        &self.all
    }

    /// All parameters.
    pub fn root(&self) -> Scope<'_> {
        Scope {
            params: self,
            prefix: String::new(),
        }
    }

    /// The first parameter that nothing has read, in the order of names.
    pub fn unread(&self) -> Option<&str> {
        let read = self.read.borrow();
        let unread = self.all.keys().find(|name| !read.contains(*name));
        unread.map(String::as_str)
    }
}

impl From<BTreeMap<String, String>> for Params {
    fn from(all: BTreeMap<String, String>) -> Self {
        Params {
            all,
            read: RefCell::default(),
        }
    }
}

/// Parameters below a name.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    params: &'a Params,
    prefix: String,
}

impl<'a> Scope<'a> {
    fn name(&self, name: &str) -> String {
        match self.prefix.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.prefix),
        }
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let (name, value) = self.params.all.get_key_value(&self.name(name))?;
        self.params.read.borrow_mut().insert(name.clone());
        Some(value)
    }

    /// The value of a parameter that must be there and not empty.
    pub fn need(&self, name: &str) -> Result<&'a str, Refusal> {
        let value = self.get(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| Refusal::missing(&self.name(name)))
    }

    /// A number or another value with a syntax of its own.
    pub fn parse<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let parsed = |value: &str| value.parse().map_err(|_| self.bad(name, value));
        self.get(name).map(parsed).transpose()
    }

    /// `true` or `false`; false if it is not there.
    pub fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.get(name) {
            None => Ok(false),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(value) => Err(self.bad(name, value)),
        }
    }

    /// One of the values of an enumeration.
    pub fn one_of(&self, name: &str, known: &[&str]) -> Result<Option<&'a str>, Refusal> {
        match self.get(name) {
            Some(value) if !known.contains(&value) => Err(self.bad(name, value)),
            other => Ok(other),
        }
    }

    fn bad(&self, name: &str, value: &str) -> Refusal {
        let name = self.name(name);
        let message = format!("Value ({value}) for parameter {name} is invalid.");
        Refusal::new("InvalidParameterValue", message)
    }

    /// Parameters below one name of this scope.
    pub fn under(&self, name: &str) -> Scope<'a> {
        Scope {
            params: self.params,
            prefix: self.name(name),
        }
    }

    /// Whether anything is below it.
    pub fn is_empty(&self) -> bool {
        self.below().next().is_none()
    }

    /// Names below this scope with their values, in the order of names.
    fn below(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let start = match self.prefix.is_empty() {
            true => String::new(),
            false => format!("{}.", self.prefix),
        };
        let from = (Bound::Included(start.clone()), Bound::Unbounded);
        let range = self.params.all.range::<String, _>(from);
        range.map_while(move |(name, value)| Some((name.strip_prefix(&start)?, &**value)))
    }

    /// The numbers of a list, ascending: `Filter.1`, `Filter.10`.
    fn numbers(&self, name: &str) -> BTreeSet<u64> {
        let list = self.under(name);
        let first = |(rest, _): (&str, _)| rest.split('.').next()?.parse().ok();
        list.below().filter_map(first).collect()
    }

    /// Entries of a list of structures.
    pub fn list(&self, name: &str) -> Vec<Scope<'a>> {
        let numbers = self.numbers(name).into_iter();
        numbers
            .map(|at| self.under(&format!("{name}.{at}")))
            .collect()
    }

    /// Entries of a list of texts.
    pub fn texts(&self, name: &str) -> Vec<&'a str> {
        let numbers = self.numbers(name).into_iter();
        let texts = numbers.filter_map(|at| self.get(&format!("{name}.{at}")));
        texts.collect()
    }

    /// Everything below this scope, with names relative to it. All of it counts as read.
    pub fn take_all(&self) -> BTreeMap<String, String> {
        let names: Vec<&str> = self.below().map(|(name, _)| name).collect();
        let pair = |name: &str| Some((name.to_owned(), self.get(name)?.to_owned()));
        names.into_iter().filter_map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_in_the_order_of_their_numbers() {
        let form = b"Filter.2.Name=b&Filter.10.Name=c&Filter.1.Name=a%20a&Filter.1.Value.1=x";
        let params = Params::parse(form);
        let filters = params.root().list("Filter");
        let names: Vec<_> = filters.iter().map(|filter| filter.get("Name")).collect();
        assert_eq!(names, [Some("a a"), Some("b"), Some("c")]);
        assert_eq!(params.unread(), Some("Filter.1.Value.1"));
        assert_eq!(filters[0].texts("Value"), ["x"]);
        assert_eq!(params.unread(), None);
    }

    #[test]
    fn values_are_checked_with_the_full_name() {
        let params = Params::parse(b"Target.Count=many&Target.Dry=perhaps&Empty=");
        let target = params.root().under("Target");
        assert!(!target.is_empty() && params.root().under("Other").is_empty());
        let message = |refusal: Refusal| format!("{}: {}", refusal.code, refusal.message);
        let bad = target.parse::<u32>("Count").map_err(message);
        assert_eq!(
            bad,
            Err(
                "InvalidParameterValue: Value (many) for parameter Target.Count is invalid."
                    .to_owned()
            )
        );
        assert!(target.flag("Dry").is_err());
        assert_eq!(
            params.root().need("Empty").map_err(message),
            Err("MissingParameter: The request must contain the parameter Empty".to_owned())
        );
        let all = target.take_all();
        assert_eq!(all.into_keys().collect::<Vec<_>>(), ["Count", "Dry"]);
    }
}
