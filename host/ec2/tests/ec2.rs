//! What is computed from EC2's descriptions, beside recorded answers.

mod bootstrap;
mod catalogue;
mod definition;
mod hashes;
mod launch;
mod preview;
mod readers;
mod rules;
mod types;
mod userdata;
