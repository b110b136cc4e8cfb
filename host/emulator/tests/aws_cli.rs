//! Another client that was not written here: the AWS CLI, as a person types it. Not run where there
//! is no `aws`; `LONGSHORE_AWS_CLI` names another.

use std::process::{Command, Output};

use crate::background::background;
use libtest_mimic::{Failed, Trial};
use longshore_emulator::{Account, World};

type Test = fn(&Cli) -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let missing = missing();
    let tests: [(&str, Test); 4] = [
        ("a_person_reads_the_account", account),
        ("a_person_launches_and_terminates", instances),
        ("a_person_makes_an_instance_profile", profiles),
        ("a_person_reads_the_queue", queue),
    ];
    let trial = |(name, test): (&str, Test)| {
        let name = match &missing {
            None => name.to_owned(),
            Some(reason) => format!("{name} (not run: {reason})"),
        };
        let run = move || Cli::new().and_then(|cli| test(&cli));
        Trial::test(name, run).with_ignored_flag(missing.is_some())
    };
    tests.into_iter().map(trial).collect()
}

fn program() -> String {
    std::env::var("LONGSHORE_AWS_CLI").unwrap_or_else(|_| "aws".to_owned())
}

fn missing() -> Option<String> {
    match Command::new(program()).arg("--version").output() {
        Err(error) => Some(format!("{}: {error}", program())),
        Ok(done) if done.status.success() => None,
        Ok(_) => Some(format!("{} does not say its version", program())),
    }
}

/// The CLI with an emulator.
struct Cli {
    url: String,
}

impl Cli {
    fn new() -> Result<Self, Failed> {
        let mut account = Account::default_region();
        account.settings.lag_milliseconds = (0, 0);
        account.settings.start_milliseconds = (0, 0);
        account.settings.stop_milliseconds = (0, 0);
        account.roles.insert("node".to_owned());
        let address = background(World::new(account, 1))?;
        Ok(Cli {
            url: format!("http://{address}"),
        })
    }

    fn run(&self, words: &str) -> Result<Output, Failed> {
        let done = Command::new(program())
            .args(words.split(' '))
            .env("AWS_ENDPOINT_URL", &self.url)
            .env("AWS_REGION", "us-east-1")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env("AWS_DEFAULT_OUTPUT", "text")
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_CONFIG_FILE", "/nonexistent")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
            .env("AWS_PAGER", "")
            .output()?;
        Ok(done)
    }

    /// What a command prints, as text.
    fn says(&self, words: &str) -> Result<String, Failed> {
        let done = self.run(words)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match done.status.success() {
            true => Ok(text(&done.stdout)),
            false => Err(format!("aws {words}: {}", text(&done.stderr)).into()),
        }
    }

    /// A command prints what is expected.
    fn expect(&self, words: &str, expected: &str) -> Result<(), Failed> {
        let said = self.says(words)?;
        match said == expected {
            true => Ok(()),
            false => Err(format!("aws {words}: {said:?} and not {expected:?}").into()),
        }
    }

    /// A command fails with a code that it reads from the reply.
    fn fails(&self, words: &str, code: &str) -> Result<(), Failed> {
        let done = self.run(words)?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        match !done.status.success() && said.contains(&format!("({code})")) {
            true => Ok(()),
            false => Err(format!("aws {words}: {said:?} and not {code}").into()),
        }
    }
}

fn account(cli: &Cli) -> Result<(), Failed> {
    cli.expect(
        "ec2 describe-subnets --filters Name=tag-key,Values=karpenter.sh/discovery --query length(Subnets)",
        "3",
    )?;
    cli.expect(
        "ec2 describe-instance-types --instance-types m5.large --query InstanceTypes[].VCpuInfo.DefaultVCpus",
        "2",
    )?;
    // The CLI turns pages by itself.
    let types = "ec2 describe-instance-types --page-size 5 --query InstanceTypes[].InstanceType";
    let types = cli.says(types)?;
    if types.split_whitespace().count() != 15 {
        return Err(format!("instance types: {types}").into());
    }
    let parameter = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let image = cli.says(&format!(
        "ssm get-parameter --name {parameter} --query Parameter.Value"
    ))?;
    cli.expect(
        &format!("ec2 describe-images --image-ids {image} --query Images[].Architecture"),
        "x86_64",
    )?;
    cli.expect(
        "eks describe-cluster --name demo --query cluster.version",
        "1.36",
    )?;
    let price = "pricing get-products --region us-east-1 --service-code AmazonEC2 --filters Type=TERM_MATCH,Field=instanceType,Value=m5.large --query length(PriceList)";
    if cli.says(price)? == "0" {
        return Err("m5.large has no price".into());
    }
    cli.says("sts get-caller-identity --query Account")?;
    cli.fails(
        "ec2 describe-instances --instance-ids i-0123456789abcdef0",
        "InvalidInstanceID.NotFound",
    )
}

fn instances(cli: &Cli) -> Result<(), Failed> {
    let image = cli.says("ec2 describe-images --query Images[0].ImageId")?;
    let subnet = cli.says("ec2 describe-subnets --query Subnets[0].SubnetId")?;
    let template = format!(r#"{{"ImageId":"{image}"}}"#);
    cli.says(&format!(
        "ec2 create-launch-template --launch-template-name one --launch-template-data {template}"
    ))?;
    let configs = format!(
        r#"[{{"LaunchTemplateSpecification":{{"LaunchTemplateName":"one","Version":"$Latest"}},"Overrides":[{{"InstanceType":"m5.large","SubnetId":"{subnet}"}}]}}]"#
    );
    let fleet = format!(
        "ec2 create-fleet --type instant --target-capacity-specification TotalTargetCapacity=2,DefaultTargetCapacityType=on-demand --launch-template-configs {configs} --tag-specifications ResourceType=instance,Tags=[{{Key=team,Value=a}}]"
    );
    let ids = cli.says(&format!("{fleet} --query Instances[].InstanceIds[]"))?;
    let ids = ids.split_whitespace().collect::<Vec<_>>().join(" ");
    cli.says(&format!("ec2 wait instance-running --instance-ids {ids}"))?;
    cli.says(&format!(
        "ec2 create-tags --resources {ids} --tags Key=Name,Value=web"
    ))?;
    cli.expect(
        "ec2 describe-instances --filters Name=tag:Name,Values=web Name=tag:team,Values=a --query length(Reservations[].Instances[])",
        "2",
    )?;
    cli.says(&format!("ec2 terminate-instances --instance-ids {ids}"))?;
    cli.says(&format!(
        "ec2 wait instance-terminated --instance-ids {ids}"
    ))?;
    cli.says("ec2 delete-launch-template --launch-template-name one")?;
    cli.fails(
        "ec2 describe-launch-templates --launch-template-names one",
        "InvalidLaunchTemplateName.NotFoundException",
    )
}

fn profiles(cli: &Cli) -> Result<(), Failed> {
    cli.says("iam create-instance-profile --instance-profile-name one --path /karpenter/")?;
    cli.fails(
        "iam create-instance-profile --instance-profile-name one",
        "EntityAlreadyExists",
    )?;
    cli.says("iam add-role-to-instance-profile --instance-profile-name one --role-name node")?;
    cli.expect(
        "iam list-instance-profiles --path-prefix /karpenter/ --query InstanceProfiles[].Roles[].RoleName",
        "node",
    )?;
    cli.says("iam remove-role-from-instance-profile --instance-profile-name one --role-name node")?;
    cli.says("iam delete-instance-profile --instance-profile-name one")?;
    cli.fails(
        "iam get-instance-profile --instance-profile-name one",
        "NoSuchEntity",
    )
}

/// Version 1 of the CLI reads `AWS_ENDPOINT_URL` for every service but SQS.
fn queue(cli: &Cli) -> Result<(), Failed> {
    let endpoint = format!("--endpoint-url {}", cli.url);
    let url = format!("sqs get-queue-url {endpoint} --queue-name demo --query QueueUrl");
    let url = cli.says(&url)?;
    cli.says(&format!(
        "sqs send-message {endpoint} --queue-url {url} --message-body one"
    ))?;
    let receive =
        format!("sqs receive-message {endpoint} --queue-url {url} --visibility-timeout 60");
    let message = cli.says(&format!(
        "{receive} --query Messages[0].[Body,ReceiptHandle]"
    ))?;
    let mut words = message.split_whitespace();
    let (body, handle) = (words.next(), words.next().unwrap_or_default());
    if body != Some("one") {
        return Err(format!("received {message:?}").into());
    }
    cli.says(&format!(
        "sqs delete-message {endpoint} --queue-url {url} --receipt-handle {handle}"
    ))?;
    cli.fails(
        &format!("sqs get-queue-url {endpoint} --queue-name none"),
        "AWS.SimpleQueueService.NonExistentQueue",
    )
}
