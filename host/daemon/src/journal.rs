//! `longshore journal show` and `longshore journal grep`: prints a journal as text.

use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::path::Path;

use longshore_api::crd::Timestamp;

use crate::answer::Answer;
use crate::args::{GrepArgs, OnlyArgs, ShowArgs};
use longshore_api::kinds::ObjectKind;
use longshore_journal::messages::{self, ChangeKind};
use longshore_journal::read::{Item, Reader};
use longshore_journal::record::{Observed, Record, What};
use longshore_journal::round::{Round, RoundOutcome};
use longshore_live::error::Failure;

/// Prints what happened.
pub fn show(args: &ShowArgs) -> Result<Answer, Failure> {
    let filter = Filter::new(&args.only)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    lines(&args.path, &filter, None, &mut out)?;
    Ok(Answer::ok(String::new()))
}

/// Prints what happened to objects with a text in them.
pub fn grep(args: &GrepArgs) -> Result<Answer, Failure> {
    let filter = Filter::new(&args.only)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let printed = lines(
        &args.path,
        &filter,
        Some(&args.pattern.to_lowercase()),
        &mut out,
    )?;
    Ok(Answer {
        text: String::new(),
        code: u8::from(printed == Printed::Nothing),
    })
}

/// Whether there was anything to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Printed {
    Nothing,
    Some,
}

/// The selected records; times are in milliseconds since 1970.
#[derive(Default)]
struct Filter {
    from: Option<i64>,
    to: Option<i64>,
    kind: Option<ObjectKind>,
    rounds: bool,
}

impl Filter {
    fn new(args: &OnlyArgs) -> Result<Self, Failure> {
        let time = |flag: &str, typed: &Option<String>| {
            let Some(typed) = typed else { return Ok(None) };
            let parsed: Result<Timestamp, _> = typed.parse();
            parsed
                .map(|time| Some(time.as_millisecond()))
                .map_err(|error| Failure::Usage {
                    message: format!("{flag} {typed}: not a time: {error}"),
                    hint: "write it as 2026-11-01T12:00:00Z".into(),
                })
        };
        let kind = |typed: &String| {
            let is = |kind: &ObjectKind| {
                let at = kind.at();
                [at.kind, at.plural]
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case(typed))
            };
            ObjectKind::ALL
                .into_iter()
                .find(is)
                .ok_or_else(|| Failure::Usage {
                    message: format!("--kind {typed}: no such kind"),
                    hint: format!(
                        "there are {}",
                        ObjectKind::ALL.map(messages::kind).join(", ")
                    ),
                })
        };
        Ok(Filter {
            from: time("--from", &args.from)?,
            to: time("--to", &args.to)?,
            kind: args.kind.as_ref().map(kind).transpose()?,
            rounds: args.rounds,
        })
    }

    fn time(&self, time: i64) -> bool {
        self.from.is_none_or(|from| time >= from) && self.to.is_none_or(|to| time <= to)
    }

    fn observed(&self, observed: &Observed) -> bool {
        !self.rounds
            && self.kind.is_none_or(|kind| kind == observed.kind)
            && self.time(observed.time)
    }

    fn other(&self, time: i64) -> bool {
        self.kind.is_none() && self.time(time)
    }
}

/// Prints the lines of a journal that are asked for; with a pattern (in lower case) those of
/// objects and rounds that have it.
fn lines(
    path: &Path,
    filter: &Filter,
    pattern: Option<&str>,
    out: &mut impl Write,
) -> Result<Printed, Failure> {
    let mut reader = Reader::open(path)?;
    let mut there: HashSet<(ObjectKind, String)> = HashSet::new();
    let (mut known, mut printed) = (0usize, Printed::Nothing);
    let mut say = |time: Option<i64>, line: String| {
        printed = Printed::Some;
        let time = time.map_or_else(String::new, |time| messages::time(time) + "  ");
        match writeln!(out, "{time}{line}") {
            // A reader that has seen enough (`| head`) is no failure.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::Print(error)),
            Ok(()) => Ok(true),
        }
    };
    let whole = pattern.is_none();
    loop {
        let item = match reader.next_item() {
            Ok(Some(item)) => item,
            Ok(None) => break,
            Err(error) => {
                out.flush().map_err(Failure::Print)?;
                return Err(error.into());
            }
        };
        let line = match item {
            Item::Begins {
                file,
                head,
                goes_on,
            } => {
                if !goes_on {
                    there.clear();
                    known = 0;
                }
                let goes_on = if goes_on { "goes on" } else { "begins" };
                let line = format!(
                    "{} {goes_on}, written by Longshore {}",
                    file.display(),
                    head.by
                );
                (whole && filter.other(head.time)).then_some((Some(head.time), line))
            }
            Item::Ends { file, end } => {
                let line = messages::end(end).map(|end| format!("{} {end}", file.display()));
                if let (Some(line), false) = (&line, whole) {
                    eprintln!("{line}");
                }
                line.filter(|_| whole).map(|line| (None, line))
            }
            Item::Record { checkpoint, record } => match record {
                Record::Observed(observed) => {
                    let came = change_kind(&mut there, checkpoint, &observed);
                    known += usize::from(checkpoint);
                    let shown = pattern.map_or(!checkpoint, |pattern| has(&observed, pattern));
                    (shown && filter.observed(&observed))
                        .then(|| (Some(observed.time), messages::observed(&observed, came)))
                }
                Record::Began(began) if whole && filter.other(began.time) => {
                    let known = match std::mem::take(&mut known) {
                        0 => String::new(),
                        known => format!(" ({known} objects known from before)"),
                    };
                    let line = format!(
                        "{} begins at revision {}{known}",
                        messages::name_of(began.round),
                        began.revision
                    );
                    Some((Some(began.time), line))
                }
                Record::Decided(round) if filter.other(round.time) => {
                    let shown = pattern.is_none_or(|pattern| round_has(&round, pattern));
                    shown.then(|| (Some(round.time), messages::round(&round)))
                }
                Record::Gap(gap) if filter.other(gap.until) => {
                    Some((Some(gap.until), messages::gap(&gap)))
                }
                Record::Blob(blob) if whole && filter.other(i64::MAX) && !filter.rounds => Some((
                    None,
                    format!(
                        "blob {} of {} bytes",
                        messages::short(&blob.digest),
                        blob.bytes.len()
                    ),
                )),
                _ => None,
            },
        };
        if let Some((time, line)) = line
            && !say(time, line)?
        {
            return Ok(Printed::Some);
        }
    }
    match out.flush() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::Print(error)),
        _ => Ok(printed),
    }
}

/// Tracks existing objects.
fn change_kind(
    there: &mut HashSet<(ObjectKind, String)>,
    checkpoint: bool,
    observed: &Observed,
) -> ChangeKind {
    let (text, gone) = match &observed.what {
        What::Upsert(text) => (text, false),
        What::Remove(text) => (text, true),
        _ => return ChangeKind::Changed,
    };
    let key = (observed.kind, messages::name(text).unwrap_or_default());
    if gone {
        there.remove(&key);
        return ChangeKind::Changed;
    }
    match (there.insert(key), checkpoint) {
        (_, true) => ChangeKind::Known,
        (true, false) => ChangeKind::Added,
        (false, false) => ChangeKind::Changed,
    }
}

fn has(observed: &Observed, pattern: &str) -> bool {
    match &observed.what {
        What::Upsert(text) | What::Remove(text) => {
            text.to_lowercase().contains(pattern)
                || messages::name(text).is_some_and(|name| name.to_lowercase().contains(pattern))
        }
        What::Failed(why) => why.to_lowercase().contains(pattern),
        What::Begin | What::End => false,
    }
}

fn round_has(round: &Round, pattern: &str) -> bool {
    let parts = match &round.outcome {
        RoundOutcome::Decided(summary) => summary
            .parts
            .iter()
            .any(|part| part.words.to_lowercase().contains(pattern)),
        RoundOutcome::Rejected(why) => why.to_lowercase().contains(pattern),
    };
    parts || messages::round(round).to_lowercase().contains(pattern)
}
