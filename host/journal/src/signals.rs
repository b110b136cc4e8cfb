//! Encodes and decodes signals, numbers exactly.

use std::collections::BTreeMap;

use longshore_policy::{Signal, Signals};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Wire {
    /// The bits of the number.
    time: u64,
    rows: Vec<(String, u64)>,
}

/// The bytes of all tables.
pub fn write(signals: &Signals) -> Vec<u8> {
    let wire = |signal: &Signal| Wire {
        time: signal.time.to_bits(),
        rows: signal
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_bits()))
            .collect(),
    };
    let tables: BTreeMap<&String, Wire> = signals
        .tables
        .iter()
        .map(|(name, table)| (name, wire(table)))
        .collect();
    serde_json::to_vec(&tables).unwrap_or_default()
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// It is something else, in words.
pub fn read(bytes: &[u8]) -> Result<Signals, String> {
    let tables: BTreeMap<String, Wire> = serde_json::from_slice(bytes)
        .map_err(|error| format!("the signals in it make no sense: {error}"))?;
    let table = |(name, wire): (String, Wire)| {
        let rows = wire
            .rows
            .into_iter()
            .map(|(key, value)| (key, f64::from_bits(value)));
        (name, Signal::new(f64::from_bits(wire.time), rows))
    };
    Ok(Signals {
        tables: tables.into_iter().map(table).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_come_back_to_the_last_bit() {
        let mut signals = Signals::default();
        signals.tables.insert(
            "carbon".into(),
            Signal::new(0.1 + 0.2, [("a".into(), 1.0 / 3.0), ("b".into(), -0.0)]),
        );
        signals.tables.insert("empty".into(), Signal::new(-1.0, []));
        assert_eq!(read(&write(&signals)), Ok(signals));
        assert!(read(b"7").is_err());
    }
}
