//! Plans beside recorded answers: Karpenter's, and our own of another day and machine.

mod determinism;
mod differential;
#[path = "differential/generate.rs"]
mod generate;
