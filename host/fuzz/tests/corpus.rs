//! Every target takes its corpus, and the first inputs made from it.

use longshore_fuzz::{Inputs, TARGETS, corpus};

/// Planning takes milliseconds, reading takes microseconds.
fn count(target: &str) -> u64 {
    if target == "plan" { 40 } else { 2000 }
}

#[test]
fn no_target_panics_on_its_corpus_or_on_inputs_made_from_it() {
    for (name, target) in TARGETS {
        let corpus = corpus(name).unwrap();
        assert!(!corpus.is_empty(), "{name} has no corpus");
        let inputs = Inputs::new(corpus.clone(), 1);
        let made = corpus.len() as u64..corpus.len() as u64 + count(name);
        let whole = if name == "plan" {
            0..40
        } else {
            0..corpus.len() as u64
        };
        for n in whole.chain(made) {
            let input = inputs.get(n);
            let taken = std::panic::catch_unwind(|| target(&input));
            assert!(
                taken.is_ok(),
                "input {n} of {name}: {}",
                String::from_utf8_lossy(&input)
            );
        }
    }
}
