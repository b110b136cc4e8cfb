//! A client that was not written here: boto3 calls every action, and each raw reply is held against
//! botocore's service models (`tools/check_with_boto3.py`). Not run where python3 has no boto3.

use std::process::Command;

use crate::background::background;
use libtest_mimic::{Failed, Trial};
use longshore_emulator::{Account, World};

pub fn trials() -> Vec<Trial> {
    let reason = missing();
    let name = match &reason {
        None => "boto3_reads_every_reply_and_botocore_finds_no_fault".to_owned(),
        Some(reason) => format!("boto3_reads_every_reply (not run: {reason})"),
    };
    vec![Trial::test(name, every_reply).with_ignored_flag(reason.is_some())]
}

/// The Python to use: `LONGSHORE_PYTHON`, or `python3`.
fn python() -> String {
    std::env::var("LONGSHORE_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

fn missing() -> Option<String> {
    match Command::new(python()).args(["-c", "import boto3"]).output() {
        Err(error) => Some(format!("{}: {error}", python())),
        Ok(done) if done.status.success() => None,
        Ok(_) => Some(format!("{} has no boto3", python())),
    }
}

fn every_reply() -> Result<(), Failed> {
    let mut account = Account::default_region();
    // The script launches with a profile that it has just made.
    account.settings.profile_milliseconds = 0;
    let url = format!("http://{}", background(World::new(account, 1))?);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/check_with_boto3.py");
    let done = Command::new(python()).arg(script).arg(url).output()?;
    let (said, wrong) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    eprint!("{said}");
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("{said}{wrong}").into()),
    }
}
