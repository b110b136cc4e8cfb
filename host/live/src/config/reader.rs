//! Reads a TOML document key by key. Every key must be asked for, and every error has a location.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use longshore_core::model::Settings;
use longshore_policy::{cut, printable};
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Something wrong with a configuration file.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigError {
    file: PathBuf,
    line: usize,
    column: usize,
    message: String,
    hint: String,
}

impl ConfigError {
    /// `FILE:LINE:COLUMN`.
    pub fn place(&self) -> String {
        format!("{}:{}:{}", self.file.display(), self.line, self.column)
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError {
            file,
            line,
            column,
            message,
            hint,
        } = self;
        write!(
            f,
            "{}:{line}:{column}: {message}\n    hint: {hint}",
            file.display()
        )
    }
}

/// Where faults of one file gather.
struct Faults<'t> {
    file: &'t Path,
    text: &'t str,
    found: RefCell<Vec<(usize, ConfigError)>>,
}

impl Faults<'_> {
    fn add(&self, at: Range<usize>, message: String, hint: String) {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = self.line(at.start);
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        // Both repeat what stands in the file, which may be long or move the cursor of a terminal.
        let fault = ConfigError {
            file: self.file.into(),
            line,
            column,
            message: cut(message, MAX_MESSAGE_BYTES),
            hint: cut(hint, MAX_MESSAGE_BYTES),
        };
        self.found.borrow_mut().push((at.start, fault));
    }
}

impl Faults<'_> {
    /// The line of a byte, from 1 on.
    fn line(&self, at: usize) -> usize {
        self.text
            .get(..at)
            .unwrap_or(self.text)
            .matches('\n')
            .count()
            + 1
    }
}

/// The most characters of a name: it is in every line, Event and metric.
const MAX_NAME_CHARS: usize = 100;

/// What is wrong with a name that is shown to people; nothing if it can be.
pub fn wrong_name(name: &str) -> Option<String> {
    let length = name.chars().count();
    let problem = match length {
        0 => "is empty".to_owned(),
        _ if length > MAX_NAME_CHARS => format!("has {length} characters"),
        _ if printable(name) != name || name.trim() != name => format!("is {name:?}"),
        _ => return None,
    };
    Some(format!(
        "{problem}: expected 1 to {MAX_NAME_CHARS} characters that can be shown"
    ))
}

/// The longest message or hint, in bytes.
const MAX_MESSAGE_BYTES: usize = 1000;

/// A file being read.
pub struct Document<'t> {
    faults: Rc<Faults<'t>>,
    root: Option<Spanned<DeTable<'t>>>,
}

impl<'t> Document<'t> {
    /// Parses `text`; [`Document::end`] returns the errors.
    pub fn new(file: &'t Path, text: &'t str) -> Self {
        let faults = Rc::new(Faults {
            file,
            text,
            found: RefCell::default(),
        });
        let root = DeTable::parse(text)
            .map_err(|error| {
                let at = error.span().unwrap_or(0..0);
                faults.add(
                    at,
                    error.message().trim().into(),
                    "the file is not TOML from here on".into(),
                );
            })
            .ok();
        Document { faults, root }
    }

    /// The outermost table; `None` if the text is not TOML.
    pub fn root(&self) -> Option<Table<'_, 't>> {
        let root = self.root.as_ref()?;
        Some(Table::new(
            &self.faults,
            String::new(),
            root.span(),
            root.get_ref(),
        ))
    }

    /// `read`, unless there were faults.
    pub fn end<T>(&self, read: T) -> Result<T, Vec<ConfigError>> {
        let mut found = self.faults.found.take();
        if found.is_empty() {
            return Ok(read);
        }
        found.sort_by_key(|&(at, _)| at);
        Err(found.into_iter().map(|(_, fault)| fault).collect())
    }
}

/// A table of the file, and the keys that were read.
pub struct Table<'d, 't> {
    faults: &'d Rc<Faults<'t>>,
    /// As in a header: `[planning]`; empty for the outermost one.
    title: String,
    span: Range<usize>,
    entries: &'d DeTable<'t>,
    asked: BTreeSet<String>,
}

impl<'d, 't> Table<'d, 't> {
    fn new(
        faults: &'d Rc<Faults<'t>>,
        title: String,
        span: Range<usize>,
        entries: &'d DeTable<'t>,
    ) -> Self {
        Table {
            faults,
            title,
            span,
            entries,
            asked: BTreeSet::new(),
        }
    }

    /// The line where it begins, from 1 on.
    pub fn line(&self) -> usize {
        self.faults.line(self.span.start)
    }

    /// As in a header: `[planning]`; empty for the outermost one.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether there is such a key.
    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// The existing keys.
    pub fn keys(&self) -> Vec<String> {
        self.entries
            .keys()
            .map(|key| key.get_ref().to_string())
            .collect()
    }

    fn value(&mut self, key: &str) -> Option<(&'d DeValue<'t>, Range<usize>)> {
        self.asked.insert(key.into());
        self.entries
            .get(key)
            .map(|value| (value.get_ref(), value.span()))
    }

    fn wrong_kind(&self, key: &str, value: &DeValue, at: Range<usize>, expected: &str, hint: &str) {
        let kind = kind(value);
        self.faults.add(
            at,
            format!("`{key}` is {kind}: expected {expected}"),
            hint.into(),
        );
    }

    /// A fault at the value of `key`.
    pub fn fault_at(&self, key: &str, message: String, hint: String) {
        let at = self
            .entries
            .get(key)
            .map_or(self.span.clone(), Spanned::span);
        self.faults.add(at, message, hint);
    }

    /// A fault at a byte of the text that is the value of `key`; at its beginning where the file writes
    /// the text with escapes.
    pub fn fault_within(&self, key: &str, byte: usize, message: String, hint: String) {
        let value = self.entries.get(key);
        let place = value.and_then(|value| {
            let written = self.faults.text.get(value.span())?;
            let begins = written.find(value.get_ref().as_str()?)?;
            Some(value.span().start + begins + byte)
        });
        match place {
            Some(at) => self.faults.add(at..at, message, hint),
            None => self.fault_at(key, message, hint),
        }
    }

    /// A table under `key`.
    pub fn table(&mut self, key: &str) -> Option<Table<'d, 't>> {
        let (value, at) = self.value(key)?;
        let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let named = match key.chars().all(bare) {
            true => key.to_owned(),
            false => format!("{key:?}"),
        };
        let title = match self
            .title
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(outer) => format!("[{}.{named}]", outer.trim_matches(['[', ']'])),
            None => format!("[{named}]"),
        };
        match value {
            DeValue::Table(entries) => Some(Table::new(self.faults, title, at, entries)),
            other => {
                let hint = match self.title.starts_with("[[") {
                    true => "write it as { key = value, … }".into(),
                    false => format!("write it as {title}"),
                };
                self.wrong_kind(key, other, at, "a table", &hint);
                None
            }
        }
    }

    /// The tables of an array of tables under `key`.
    pub fn tables(&mut self, key: &str) -> Vec<Table<'d, 't>> {
        let Some((value, at)) = self.value(key) else {
            return Vec::new();
        };
        let hint = format!("write it as [[{key}]]");
        let DeValue::Array(items) = value else {
            self.wrong_kind(key, value, at, "an array of tables", &hint);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(entries) => {
                    tables.push(Table::new(
                        self.faults,
                        format!("[[{key}]]"),
                        item.span(),
                        entries,
                    ));
                }
                other => self.wrong_kind(key, other, item.span(), "a table", &hint),
            }
        }
        tables
    }

    /// A string under `key`.
    pub fn text(&mut self, key: &str) -> Option<&'d str> {
        let (value, at) = self.value(key)?;
        if value.as_str().is_none() {
            self.wrong_kind(key, value, at, "a string", "write it in quotes");
        }
        value.as_str()
    }

    /// A string under `key`, which must be there.
    pub fn required_text(&mut self, key: &str) -> Option<&'d str> {
        if !self.entries.contains_key(key) {
            self.asked.insert(key.into());
            self.missing(key, "\"…\"");
        }
        self.text(key)
    }

    /// Says that a key must be there; `example` is what its value looks like.
    pub fn missing(&self, key: &str, example: &str) {
        let place = if self.title.is_empty() {
            String::new()
        } else {
            format!(" in {}", self.title)
        };
        self.faults.add(
            self.span.clone(),
            format!("`{key}` is missing{place}"),
            format!("add `{key} = {example}`"),
        );
    }

    /// An array of strings under `key`.
    pub fn texts(&mut self, key: &str) -> Option<Vec<String>> {
        let (value, at) = self.value(key)?;
        let Some(items) = value.as_array() else {
            self.wrong_kind(
                key,
                value,
                at,
                "an array of strings",
                "write it in brackets: [\"…\"]",
            );
            return None;
        };
        let mut texts = Vec::new();
        for item in items.iter() {
            match item.get_ref().as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => self.wrong_kind(
                    key,
                    item.get_ref(),
                    item.span(),
                    "a string",
                    "write it in quotes",
                ),
            }
        }
        // What is wrong with items was said: a list of them alone is not an empty one.
        (!texts.is_empty() || items.is_empty()).then_some(texts)
    }

    /// An array of arrays of strings under `key`; its faults are said.
    pub fn lists(&mut self, key: &str) -> Option<Vec<Vec<String>>> {
        const HINT: &str = "write it as [[\"dev\"], [\"*\"]]";
        let (value, at) = self.value(key)?;
        let list = |item: &DeValue<'t>| -> Option<Vec<String>> {
            let texts = item.as_array()?.iter();
            let text = |text: &Spanned<DeValue<'t>>| text.get_ref().as_str().map(str::to_owned);
            texts.map(text).collect()
        };
        let lists = value.as_array().and_then(|items| {
            let lists = items.iter().map(|item| list(item.get_ref()));
            lists.collect::<Option<Vec<_>>>()
        });
        if lists.is_none() {
            self.wrong_kind(key, value, at, "an array of arrays of strings", HINT);
        }
        lists
    }

    /// One of these words under `key`.
    pub fn one_of<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        self.one_of_renamed(key, choices, &[])
    }

    /// One of these words under `key`, or one of `former`, which no message names.
    pub fn one_of_renamed<T: Copy>(
        &mut self,
        key: &str,
        choices: &[(&str, T)],
        former: &[(&str, T)],
    ) -> Option<T> {
        let typed = self.text(key)?;
        let found = choices
            .iter()
            .chain(former)
            .find(|(word, _)| *word == typed);
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|&(word, _)| word).collect();
            let hint = did_you_mean(typed, &words).unwrap_or("choose one of them".into());
            self.fault_at(
                key,
                format!("`{key}` is `{typed}`: expected {}", expected(&words)),
                hint,
            );
        }
        found.map(|&(_, meant)| meant)
    }

    /// A duration under `key`, as `90s`, `5m`, `1h30m` or `500ms`, in a range.
    pub fn duration(&mut self, key: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let typed = self.text(key)?;
        let duration = duration(typed);
        if duration.is_none_or(|duration| !range.contains(&duration)) {
            let (least, most) = (range.start(), range.end());
            let message =
                format!("`{key}` is `{typed}`: expected a duration of {least:?} to {most:?}");
            self.fault_at(key, message, "write it as `90s`, `5m` or `1h30m`".into());
            return None;
        }
        duration
    }

    /// A size under `key`, as `1GiB`, `64MiB` or `500MB`, in bytes.
    pub fn size(&mut self, key: &str, least: u64) -> Option<u64> {
        let typed = self.text(key)?;
        let size = size(typed).filter(|&size| size >= least);
        if size.is_none() {
            let message =
                format!("`{key}` is `{typed}`: expected a size of at least {least} bytes");
            self.fault_at(key, message, "write it as `500MiB` or `1GiB`".into());
        }
        size
    }

    /// A number under `key`, in a range; `what` describes it, for instance `a share of requests`.
    pub fn number(&mut self, key: &str, range: RangeInclusive<f64>, what: &str) -> Option<f64> {
        let (value, at) = self.value(key)?;
        let Some(number) = float(value) else {
            self.wrong_kind(key, value, at, "a number", "write it without quotes");
            return None;
        };
        if range.contains(&number) {
            return Some(number);
        }
        let (least, most) = (range.start(), range.end());
        self.faults.add(
            at,
            format!("`{key}` is {number}: expected a number of {least} to {most}"),
            what.into(),
        );
        None
    }

    /// `true` or `false` under `key`.
    pub fn truth(&mut self, key: &str) -> Option<bool> {
        let (value, at) = self.value(key)?;
        if value.as_bool().is_none() {
            self.wrong_kind(key, value, at, "true or false", "write it without quotes");
        }
        value.as_bool()
    }

    /// An amount of USD per hour under `key`: finite, at least 0.
    pub fn amount(&mut self, key: &str) -> Option<f64> {
        let (value, at) = self.value(key)?;
        let Some(number) = float(value) else {
            self.wrong_kind(key, value, at, "a number", "write it without quotes");
            return None;
        };
        if number.is_finite() && number >= 0.0 {
            return Some(number);
        }
        let hint = format!(
            "it is in USD per hour and node, {} unless set",
            Settings::NODE_COST
        );
        self.faults.add(
            at,
            format!("`{key}` is {number}: expected an amount of at least 0"),
            hint,
        );
        None
    }

    /// An integer of at least 0 under `key`.
    pub fn count(&mut self, key: &str) -> Option<u64> {
        let (value, at) = self.value(key)?;
        let Some(number) = value.as_integer() else {
            self.wrong_kind(key, value, at, "an integer", "write it without quotes");
            return None;
        };
        let parsed = u64::from_str_radix(number.as_str(), number.radix()).ok();
        if parsed.is_none() {
            let message = format!(
                "`{key}` is {}: expected an integer of at least 0",
                number.as_str()
            );
            self.faults
                .add(at, message, "choose a number from 0 on".into());
        }
        parsed
    }

    /// The whole table as a JSON object: dates as strings. A number that JSON has not is a fault:
    /// no policy could be given it.
    pub fn into_json(self) -> Value {
        self.table_json(self.entries)
    }

    fn table_json(&self, table: &DeTable) -> Value {
        let entries = table.iter();
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue>)| {
            let key: &std::borrow::Cow<str> = key.get_ref();
            (key.to_string(), self.json(key, value))
        };
        Value::Object(entries.map(entry).collect())
    }

    /// A value under `key`, or in an array there.
    fn json(&self, key: &str, value: &Spanned<DeValue>) -> Value {
        let number = |number: Option<Value>, written: &str, expected: &str, hint: &str| {
            number.unwrap_or_else(|| {
                let message = format!("`{key}` is {written}: expected {expected}");
                self.faults.add(value.span(), message, hint.into());
                Value::Null
            })
        };
        match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Integer(written) => number(
                i64::from_str_radix(written.as_str(), written.radix())
                    .ok()
                    .map(Value::from),
                written.as_str(),
                "an integer of 64 bits",
                "write a smaller one, or a number with a point",
            ),
            DeValue::Float(written) => number(
                float(value.get_ref())
                    .and_then(serde_json::Number::from_f64)
                    .map(Value::Number),
                written.as_str(),
                "a finite number",
                "leave the key out where there is no limit, or write a large number",
            ),
            DeValue::Boolean(truth) => Value::Bool(*truth),
            DeValue::Datetime(date) => Value::String(date.to_string()),
            DeValue::Array(items) => items.iter().map(|item| self.json(key, item)).collect(),
            DeValue::Table(table) => self.table_json(table),
        }
    }

    /// Reports the keys that were not read.
    pub fn finish(self) {
        let known: Vec<&str> = self.asked.iter().map(String::as_str).collect();
        for (key, value) in self
            .entries
            .iter()
            .filter(|(key, _)| !self.asked.contains(key.get_ref().as_ref()))
        {
            let (kind, place) = match (self.title.is_empty(), value.get_ref()) {
                (true, DeValue::Table(_) | DeValue::Array(_)) => ("table", String::new()),
                (true, _) => ("key", String::new()),
                (false, _) => ("key", format!(" in {}", self.title)),
            };
            let hint = did_you_mean(key.get_ref(), &known)
                .unwrap_or("delete the line; host/docs/configuration.md lists the keys".into());
            let message = format!(
                "unknown {kind} `{}`{place}: expected {}",
                key.get_ref(),
                expected(&known)
            );
            self.faults.add(key.span(), message, hint);
        }
    }
}

/// Sums numbers with units: `1h30m`, `2d12h`.
pub fn duration(typed: &str) -> Option<Duration> {
    let mut rest = typed.trim();
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let (number, unit) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let end = unit
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(unit.len());
        let number: u64 = number.parse().ok()?;
        let part = match &unit[..end] {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            "d" => Duration::from_secs(number.checked_mul(86_400)?),
            _ => return None,
        };
        sum = sum.checked_add(part)?;
        rest = &unit[end..];
    }
    (!typed.trim().is_empty()).then_some(sum)
}

/// A share as `10%`, at most all.
pub fn percent(typed: &str) -> Option<f64> {
    let number: f64 = typed.strip_suffix('%')?.trim().parse().ok()?;
    (0.0..=100.0).contains(&number).then_some(number / 100.0)
}

/// A number of bytes with its unit.
fn size(typed: &str) -> Option<u64> {
    let (number, unit) = typed.split_at(
        typed
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(typed.len()),
    );
    let unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// `` `a` `` or ``one of `a`, `b` ``.
pub fn expected(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.len() {
        1 => quoted.concat(),
        _ => format!("one of {}", quoted.join(", ")),
    }
}

/// The known word closest to `typed`, as a hint.
pub fn did_you_mean(typed: &str, known: &[&str]) -> Option<String> {
    let likeness = |word: &str| strsim::jaro_winkler(&typed.to_lowercase(), &word.to_lowercase());
    let nearest = known
        .iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(nearest) > 0.8).then(|| format!("did you mean `{nearest}`?"))
}

fn kind(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

fn float(value: &DeValue) -> Option<f64> {
    match value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
        DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(f64::from),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    }
}
