//! `longshore types --provider aws --save-world FILE`: the region as EC2 describes it to an account.

use std::path::Path;

use crate::answer::Answer;
use crate::args::TypesArgs;
use longshore_live::error::Failure;

/// Asks AWS, and writes the file.
///
/// # Errors
/// AWS does not answer, the file cannot be written, or this binary has no EC2.
pub fn run(args: &TypesArgs, file: &Path) -> Result<Answer, Failure> {
    if args.aws.world.is_some() || args.instance_types.is_some() {
        return Err(Failure::Usage {
            message: "--save-world asks AWS, and not a file".into(),
            hint: "leave --world and --instance-types out".into(),
        });
    }
    saved(file)
}

#[cfg(not(feature = "aws"))]
fn saved(_: &Path) -> Result<Answer, Failure> {
    Err(Failure::Usage {
        message: "this binary was built without EC2".into(),
        hint: "the image has it; `cargo build --release -p longshore --features aws` makes one \
            that does"
            .into(),
    })
}

#[cfg(feature = "aws")]
fn saved(file: &Path) -> Result<Answer, Failure> {
    use std::time::SystemTime;

    use longshore_aws::clients::{Access, Clients};
    use longshore_aws::world;

    use longshore_report::count;

    let refused = |message: String, hint: &str| Failure::Usage {
        message,
        hint: hint.into(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|why| refused(format!("a thread does not start: {why}"), "try again"))?;
    let world = runtime.block_on(async {
        let clients = Clients::new(&Access::default()).await;
        let clients = clients.map_err(|why| {
            let hint = "set AWS_REGION and credentials, as for every tool of AWS";
            refused(why.to_string(), hint)
        })?;
        let read = world::read(&clients, SystemTime::now()).await;
        let hint = "its policy has to allow ec2:DescribeInstanceTypes, \
            ec2:DescribeInstanceTypeOfferings, ec2:DescribeSpotPriceHistory and ec2:DescribeSubnets";
        read.map_err(|why| refused(format!("EC2 cannot be read: {}", why.with_hint()), hint))
    })?;
    let text = world.json.to_string();
    let bytes = match file.extension().is_some_and(|end| end == "gz") {
        true => gzipped(&text),
        false => Ok(text.into_bytes()),
    };
    let written = bytes.and_then(|bytes| std::fs::write(file, bytes));
    written.map_err(|source| Failure::Input {
        file: file.into(),
        reason: format!("cannot be written: {source}"),
        hint: String::new(),
    })?;
    for note in &world.notes {
        eprintln!("note: {note}");
    }
    Ok(Answer::ok(format!(
        "{}: {} in {} of {}, {} with an on-demand price, {} with a spot price.\n",
        file.display(),
        count(world.types, "instance type"),
        count(world.zones, "zone"),
        world.region,
        world.on_demand,
        world.spot
    )))
}

#[cfg(feature = "aws")]
fn gzipped(text: &str) -> std::io::Result<Vec<u8>> {
    use std::io::Write as _;

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(text.as_bytes())?;
    gzip.finish()
}
