//! Suites with the real SDK on a real control plane, one after the other: `cargo test --features aws
//! --test on_aws -- aws_live::` runs one of them.
#![allow(clippy::print_stdout, reason = "figures, for a person that runs it")]

mod aws_live;
mod aws_takeover;
mod aws_thousand;
mod moto_live;
#[allow(dead_code, reason = "its other users need the rest")]
mod plane;

fn main() {
    let arguments = libtest_mimic::Arguments::from_args();
    let suites = [
        aws_live::suite,
        aws_takeover::suite,
        aws_thousand::suite,
        moto_live::suite,
    ];
    let failed = suites.map(|suite| suite().run(&arguments));
    plane::exit(failed.contains(&true));
}
