//! Inputs from a seed: modified entries of a corpus. They are not guided by coverage, so no special
//! toolchain is needed.

use std::path::{Path, PathBuf};

use longshore_core::rng::SplitMix64;

/// Pieces of what readers look for, and numbers at the edge of what they can hold.
const PIECES: [&str; 44] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\n",
    " ",
    "---\n",
    "- ",
    "null",
    "true",
    "0",
    "-1",
    "1e309",
    "-0",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1Ei",
    "0.0000000001",
    "e99999999999",
    "\u{feff}",
    "\u{0}",
    "ä",
    "&a",
    "*a",
    "!!str",
    "|\n",
    "metadata",
    "kind: List",
    "items",
    "apiVersion: v1",
    "\"kind\":\"Pod\"",
    "720h",
    "-1h",
    "1h1m1s",
    "Never",
    "9999999999h",
    "2026-11-01T00:00:00Z",
    "[[policy]]",
    "= '",
];

/// The inputs of one seed.
pub struct Inputs {
    corpus: Vec<Vec<u8>>,
    seed: u64,
}

impl Inputs {
    /// Inputs that are made from a corpus; from nothing if that is empty.
    pub fn new(mut corpus: Vec<Vec<u8>>, seed: u64) -> Self {
        if corpus.is_empty() {
            corpus.push(Vec::new());
        }
        Inputs { corpus, seed }
    }

    /// The n-th: an entry of the corpus as it is for the first ones, changed for all others.
    pub fn get(&self, n: u64) -> Vec<u8> {
        if let Some(entry) = usize::try_from(n).ok().and_then(|n| self.corpus.get(n)) {
            return entry.clone();
        }
        let mut rng = Rng(SplitMix64(
            self.seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ));
        let mut bytes = self.corpus[rng.below(self.corpus.len())].clone();
        for _ in 0..=rng.below(6) {
            self.change(&mut bytes, &mut rng);
        }
        bytes
    }

    fn change(&self, bytes: &mut Vec<u8>, rng: &mut Rng) {
        let at = rng.below(bytes.len() + 1);
        let end = (at + 1 + rng.below(8)).min(bytes.len());
        match rng.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = rng.next() as u8,
            2 => drop(bytes.drain(at..end)),
            3 => bytes.truncate(at),
            4 => {
                let again = bytes[at..end].repeat(1 + rng.below(64));
                bytes.splice(at..at, again);
            }
            5 => {
                let other = &self.corpus[rng.below(self.corpus.len())];
                let from = rng.below(other.len() + 1);
                let to = (from + rng.below(256)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            _ => {
                let piece = PIECES[rng.below(PIECES.len())];
                bytes.splice(at..end, piece.bytes());
            }
        }
    }
}

/// Files of a target's corpus, sorted by name; none if there is no such folder.
///
/// # Errors
/// A file cannot be read.
pub fn corpus(target: &str) -> std::io::Result<Vec<Vec<u8>>> {
    let package = std::env::var("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let folder = Path::new(&package).join("corpus").join(target);
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    files.iter().map(std::fs::read).collect()
}

struct Rng(SplitMix64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// Below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let inputs = |seed| {
            let inputs = Inputs::new(vec![b"{\"a\": [1, 2]}".to_vec(), b"x: 1".to_vec()], seed);
            (0..200).map(|n| inputs.get(n)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(7), inputs(7));
        assert_ne!(inputs(7), inputs(8));
        assert_eq!(inputs(7)[0], b"{\"a\": [1, 2]}");
    }
}
