//! Which service and action a request is for.
//!
//! One port answers all services, so the path and host say little. The target header of JSON
//! protocols, the scope of the signature, the host, the version of the API and the path are asked
//! in this order. Signatures are not checked.

use super::error::Refusal;
use super::request::Request;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// EC2: query protocol with XML of its own.
    Ec2,
    /// SQS: JSON 1.0.
    Sqs,
    /// SSM: JSON 1.1.
    Ssm,
    /// IAM: query protocol.
    Iam,
    /// EKS: REST with JSON.
    Eks,
    /// The Pricing API: JSON 1.1.
    Pricing,
    /// STS: query protocol.
    Sts,
    /// Zonal shifts of Application Recovery Controller: REST with JSON.
    ZonalShift,
}

impl Service {
    pub const ALL: [Service; 8] = [
        Service::Ec2,
        Service::Sqs,
        Service::Ssm,
        Service::Iam,
        Service::Eks,
        Service::Pricing,
        Service::Sts,
        Service::ZonalShift,
    ];

    /// Its name in the scope of signatures.
    pub fn name(self) -> &'static str {
        match self {
            Service::Ec2 => "ec2",
            Service::Sqs => "sqs",
            Service::Ssm => "ssm",
            Service::Iam => "iam",
            Service::Eks => "eks",
            Service::Pricing => "pricing",
            Service::Sts => "sts",
            Service::ZonalShift => "arc-zonal-shift",
        }
    }

    /// A service by its name.
    pub fn named(name: &str) -> Option<Service> {
        Service::ALL.into_iter().find(|one| one.name() == name)
    }

    /// The XML namespace of its replies, empty if they are not XML.
    pub fn namespace(self) -> &'static str {
        match self {
            Service::Ec2 => "http://ec2.amazonaws.com/doc/2016-11-15/",
            Service::Iam => "https://iam.amazonaws.com/doc/2010-05-08/",
            Service::Sts => "https://sts.amazonaws.com/doc/2011-06-15/",
            _ => "",
        }
    }

    /// Whether the region of a signature is the world's. IAM and Pricing live elsewhere.
    fn regional(self) -> bool {
        !matches!(self, Service::Iam | Service::Pricing | Service::Sts)
    }
}

/// A request whose service and action are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub service: Service,
    /// `DescribeInstances`. Empty if the request names none.
    pub action: String,
    /// The error of a request that no service would look into further.
    pub wrong: Option<Refusal>,
}

const VERSIONS: [(&str, Service); 3] = [
    ("2016-11-15", Service::Ec2),
    ("2010-05-08", Service::Iam),
    ("2011-06-15", Service::Sts),
];

const TARGETS: [(&str, Service); 3] = [
    ("AmazonSQS", Service::Sqs),
    ("AmazonSSM", Service::Ssm),
    ("AWSPriceListService", Service::Pricing),
];

/// Services with paths: where their resources are, and what reads one of them.
const REST: [(Service, &str, &str); 2] = [
    (Service::Eks, "/clusters", "DescribeCluster"),
    (
        Service::ZonalShift,
        "/managedresources",
        "GetManagedResource",
    ),
];

/// Finds service and action. `None` if the request names no service.
pub fn route(request: &Request, region: &str) -> Option<Call> {
    let target = request
        .header("x-amz-target")
        .and_then(|target| target.split_once('.'));
    let scope = scope(request);
    let service = target
        .and_then(|(prefix, _)| find(&TARGETS, prefix))
        .or_else(|| Service::named(scope?.1))
        .or_else(|| by_host(request))
        .or_else(|| find(&VERSIONS, &form_value(request, "Version")?))
        .or_else(|| {
            let found = REST
                .iter()
                .find(|(_, path, _)| request.path.starts_with(path));
            found.map(|(service, _, _)| *service)
        })?;
    let action = match service {
        Service::Sqs | Service::Ssm | Service::Pricing => {
            target.map(|(_, action)| action.to_owned())
        }
        Service::Ec2 | Service::Iam | Service::Sts => form_value(request, "Action"),
        Service::Eks | Service::ZonalShift => rest_action(service, request),
    };
    let foreign = scope.filter(|(scoped, _)| service.regional() && *scoped != region);
    Some(Call {
        service,
        action: action.unwrap_or_default(),
        wrong: foreign.map(|(scoped, _)| wrong_region(service, scoped, region)),
    })
}

fn find(known: &[(&str, Service)], name: &str) -> Option<Service> {
    let found = known.iter().find(|(own, _)| *own == name);
    found.map(|(_, service)| *service)
}

/// Region and service of `Credential=KEY/20261125/us-east-1/ec2/aws4_request`.
fn scope(request: &Request) -> Option<(&str, &str)> {
    let header = request.header("authorization")?;
    let credential = header
        .split("Credential=")
        .nth(1)?
        .split([',', ' '])
        .next()?;
    let mut parts = credential.rsplit('/').skip(1);
    let (service, region) = (parts.next()?, parts.next()?);
    Some((region, service))
}

/// `ec2.us-east-1.amazonaws.com` names its service.
fn by_host(request: &Request) -> Option<Service> {
    let host = request.header("host")?;
    if !host.contains(".amazonaws.") {
        return None;
    }
    match host.split('.').next()? {
        "api" => host.starts_with("api.pricing.").then_some(Service::Pricing),
        first => Service::named(first),
    }
}

/// A parameter of the body's form, or of the query.
fn form_value(request: &Request, name: &str) -> Option<String> {
    let of = |form: &[u8]| {
        let mut pairs = form_urlencoded::parse(form);
        pairs
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.into_owned())
    };
    of(&request.body).or_else(|| of(request.query.as_bytes()))
}

fn rest_action(service: Service, request: &Request) -> Option<String> {
    let (_, path, action) = REST.iter().find(|(own, _, _)| *own == service)?;
    let rest = request.path.strip_prefix(path)?.strip_prefix('/')?;
    let single = !rest.is_empty() && !rest.contains('/');
    (request.method == "GET" && single).then(|| (*action).to_owned())
}

fn wrong_region(service: Service, scoped: &str, region: &str) -> Refusal {
    let code = match service {
        Service::Ec2 => "AuthFailure",
        Service::Iam | Service::Sts => "SignatureDoesNotMatch",
        _ => "InvalidSignatureException",
    };
    let message =
        format!("Credential should be scoped to a valid region, not '{scoped}': this is {region}");
    Refusal::new(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str, headers: &[(&str, &str)], body: &str) -> Request {
        let header = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Request {
            method: if body.is_empty() { "GET" } else { "POST" }.to_owned(),
            path: path.to_owned(),
            headers: headers.iter().map(header).collect(),
            body: body.as_bytes().to_vec(),
            ..Request::default()
        }
    }

    fn found(path: &str, headers: &[(&str, &str)], body: &str) -> String {
        match route(&request(path, headers, body), "us-east-1") {
            None => "none".to_owned(),
            Some(call) => {
                let wrong = call.wrong.map(|refusal| format!(" ({})", refusal.code));
                format!(
                    "{}:{}{}",
                    call.service.name(),
                    call.action,
                    wrong.unwrap_or_default()
                )
            }
        }
    }

    fn signed(service: &str) -> String {
        format!("AWS4-HMAC-SHA256 Credential=AKID/20261125/{service}/aws4_request, SignedHeaders=x")
    }

    #[test]
    fn scope_target_host_version_and_path_tell_the_service() {
        let scope = |service: &str, body| found("/", &[("Authorization", &signed(service))], body);
        assert_eq!(
            scope("us-east-1/ec2", "Action=RunInstances"),
            "ec2:RunInstances"
        );
        assert_eq!(
            scope("us-east-1/iam", "Action=GetRole&Version=x"),
            "iam:GetRole"
        );
        assert_eq!(scope("eu-west-1/ec2", "Action=A"), "ec2:A (AuthFailure)");
        assert_eq!(scope("us-east-1/s3", ""), "none");
        let target = [("X-Amz-Target", "AmazonSQS.ReceiveMessage")];
        assert_eq!(found("/", &target, "{}"), "sqs:ReceiveMessage");
        let host = [("Host", "ec2.us-east-1.amazonaws.com")];
        assert_eq!(found("/", &host, "Action=B"), "ec2:B");
        let unsigned = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15";
        assert_eq!(found("/", &[], unsigned), "sts:AssumeRoleWithWebIdentity");
        assert_eq!(found("/clusters/demo", &[], ""), "eks:DescribeCluster");
        assert_eq!(found("/clusters/demo/addons", &[], ""), "eks:");
        let shifts = "/managedresources/arn%3Aaws%3Aeks%3Aus-east-1%3A1%3Acluster%2Fdemo";
        assert_eq!(found(shifts, &[], ""), "arc-zonal-shift:GetManagedResource");
        assert_eq!(found("/", &[], ""), "none");
    }
}
