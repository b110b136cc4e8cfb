//! Plans beside recorded answers: Karpenter's, and our own of another day and machine.

mod determinism;
mod differential;
mod disruption_vectors;
#[path = "differential/generate.rs"]
mod generate;
