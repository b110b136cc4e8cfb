//! `longshore hash`: drift hashes of NodePools and EC2NodeClasses.

use longshore_ec2::hash::{Hashed, hashes};

use crate::answer::Answer;
use crate::args::{HashArgs, Output};
use crate::input;
use longshore_live::error::Failure;
use longshore_report::table::{Align, table};

/// Prints the hash of every NodePool and EC2NodeClass of the files. Other kinds are passed over.
pub fn run(args: &HashArgs) -> Result<Answer, Failure> {
    let bundle = args.cluster_ca_bundle.as_deref();
    let all = input::all(&args.file, |name, bytes| hashes(name, bytes, bundle))?;
    Ok(Answer::ok(match args.output {
        Output::Text => text(all),
        Output::Json => format!("{:#}\n", serde_json::json!(all)),
    }))
}

fn text(all: Vec<Hashed>) -> String {
    let columns = [
        ("KIND", Align::Left),
        ("NAME", Align::Left),
        ("HASH", Align::Right),
        ("VERSION", Align::Left),
    ];
    let row = |one: Hashed| {
        let (kind, version) = (one.kind.to_owned(), one.hash_version.to_owned());
        vec![kind, one.name, one.hash, version]
    };
    table(&columns, &all.into_iter().map(row).collect::<Vec<_>>())
}
