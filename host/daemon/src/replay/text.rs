//! The result of a replay as text.

use std::fmt::Write as _;

use super::{Other, RoundPlace, Totals, Verdict};
use longshore_journal::messages;
use longshore_report::count;

/// Limit of differences that are printed one by one.
const MAX_DIFFERENCES: usize = 20;
const MAX_NOTES: usize = 50;

/// The verdict, over several lines.
pub fn render(verdict: &Verdict) -> String {
    let mut out = String::new();
    for different in verdict.different.iter().take(MAX_DIFFERENCES) {
        _ = writeln!(out, "{} differs:", place(&different.round));
        _ = writeln!(out, "    recorded  {}", different.recorded);
        _ = writeln!(out, "    replayed  {}", different.replayed);
        different
            .reasons
            .iter()
            .for_each(|reason| _ = writeln!(out, "    perhaps   {reason}"));
    }
    more(
        &mut out,
        verdict.different.len(),
        MAX_DIFFERENCES,
        "rounds differ",
    );
    for note in verdict.notes.iter().take(MAX_NOTES) {
        _ = writeln!(out, "note: {note}");
    }
    more(&mut out, verdict.notes.len(), MAX_NOTES, "notes");
    let again = verdict.equal + verdict.different.len();
    let found = match (again, verdict.different.len()) {
        (0, _) => String::new(),
        (_, 0) => ", all equal".into(),
        (_, different) => format!(", {different} otherwise"),
    };
    let passed_over = match verdict.passed_over {
        0 => String::new(),
        number => format!(", {number} passed over"),
    };
    _ = writeln!(
        out,
        "{}, {}: {} decided again{found}{passed_over}.",
        count(verdict.segments, "segment"),
        count(verdict.observations, "observation"),
        count(again, "round"),
    );
    if let Some(other) = &verdict.other {
        out += &compared(other);
    }
    out
}

fn more(out: &mut String, all: usize, shown: usize, what: &str) {
    if all > shown {
        _ = writeln!(out, "… and {} more {what}", all - shown);
    }
}

fn place(place: &RoundPlace) -> String {
    let name = messages::name_of(place.number);
    let (first, rest) = name.split_at(1);
    let name = first.to_uppercase() + rest;
    format!("{name} at {} ({})", place.time, place.file)
}

fn compared(other: &Other) -> String {
    let mut out = format!(
        "\nWith {}, {} of {} would have been decided otherwise.\n",
        other.name,
        other.different,
        count(other.rounds, "round")
    );
    let totals = |totals: &Totals| {
        format!(
            "{} at {:.4} USD/h, {} left over",
            count(totals.claims, "node"),
            totals.cost + 0.0,
            count(totals.left, "pod")
        )
    };
    _ = writeln!(out, "    bought         {}", totals(&other.recorded));
    _ = writeln!(
        out,
        "    with it        {}{}",
        totals(&other.with),
        change(other.recorded.cost, other.with.cost)
    );
    if let Some(first) = &other.first {
        _ = writeln!(out, "    first          {}", place(&first.round));
        _ = writeln!(out, "        recorded   {}", first.recorded);
        _ = writeln!(out, "        with it    {}", first.with);
    }
    for (what, change) in [
        ("saves most", &other.cheapest),
        ("costs most", &other.dearest),
    ] {
        if let Some(change) = change {
            _ = writeln!(
                out,
                "    {what}     {:+.4} USD/h in round {} at {}",
                change.cost, change.round.number, change.round.time
            );
        }
    }
    other
        .notes
        .iter()
        .for_each(|note| _ = writeln!(out, "    note           {note}"));
    out += "Each round is decided on what was there; what would have followed from another \
        purchase is not known.\n";
    out
}

fn change(from: f64, to: f64) -> String {
    if from > 0.0 {
        format!(" ({:+.2} %)", (to - from) / from * 100.0)
    } else {
        String::new()
    }
}
