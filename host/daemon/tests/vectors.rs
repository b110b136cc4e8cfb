//! Plans beside recorded answers: Karpenter's, and our own of another day and machine.

#![allow(
    clippy::duplicate_mod,
    reason = "both generators stand alone, too, and bring their own chance"
)]

mod determinism;
mod differential;
mod disruption_vectors;
#[path = "differential/generate.rs"]
mod generate;
