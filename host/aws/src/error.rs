//! Errors of AWS, by what the caller does next.
//!
//! EC2 models no errors, so the code decides. A reply that has none (HTML of a proxy, a broken body,
//! a server error, no reply in time) leaves open whether the call was carried out.

use std::fmt;

use longshore_cloud::CloudError;

use crate::calls::Call;

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The offering has no capacity: it is left out for a while.
    Capacity,
    /// The subnet has no free address: it is left out for a while.
    SubnetFull,
    /// A limit of the account: other types under it fail as well.
    Quota,
    /// The account may not buy spot instances, because the role of the service cannot be made.
    SpotRole,
    /// The launch template is gone: it is made again, and the call sent once more.
    TemplateGone,
    /// There is no such thing, or it is not visible yet.
    NotFound,
    /// Asked too often.
    Throttled,
    /// Not allowed.
    Unauthorized,
    /// The token was used for another request: that one arrived.
    TokenReused,
    /// What a dry run says that would have succeeded, or the thing is there already.
    AsWished,
    /// The request cannot succeed as it is.
    Invalid,
    /// AWS may have carried the call out: its answer did not come.
    Unknown,
}

impl Class {
    /// Whether a launch was refused for want of capacity, addresses, quota or the role of spot.
    pub fn is_shortage(self) -> bool {
        use Class::{Capacity, Quota, SpotRole, SubnetFull};
        matches!(self, Capacity | SubnetFull | Quota | SpotRole)
    }

    /// Whether the same call may succeed later without a change.
    pub fn passes(self) -> bool {
        matches!(self, Class::Throttled | Class::Unknown)
    }

    /// The word of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Capacity => "capacity",
            Class::SubnetFull => "subnet_full",
            Class::Quota => "quota",
            Class::SpotRole => "spot_role",
            Class::TemplateGone => "template_gone",
            Class::NotFound => "not_found",
            Class::Throttled => "throttled",
            Class::Unauthorized => "unauthorized",
            Class::TokenReused => "token_reused",
            Class::AsWished => "as_wished",
            Class::Invalid => "invalid",
            Class::Unknown => "unknown",
        }
    }
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The call.
    pub call: Call,
    /// What the caller does next.
    pub class: Class,
    /// The code; empty if the reply has none.
    pub code: String,
    /// The message of the service, or what went wrong on the way.
    pub message: String,
    /// The ID of the request, for AWS's support; empty if the reply has none.
    pub request: String,
}

impl ApiError {
    /// A call that failed with a code and a message.
    pub fn new(call: Call, code: &str, message: &str) -> Self {
        ApiError {
            call,
            class: classify(code, message),
            code: code.to_owned(),
            message: message.to_owned(),
            request: String::new(),
        }
    }

    /// Code, message and request in words.
    fn said(&self) -> String {
        let mut text = self.code_and_message();
        if !self.request.is_empty() {
            text += &format!(" (request {})", self.request);
        }
        text
    }

    /// Whether it is about the credentials or the clock, and not about what was asked for.
    pub fn concerns_credentials(&self) -> bool {
        let code = self.code.as_str();
        EXPIRED.contains(&code) || NOT_ACCEPTED.contains(&code)
    }

    fn code_and_message(&self) -> String {
        match self.code.is_empty() {
            true => self.message.clone(),
            false => format!("{}: {}", self.code, self.message),
        }
    }

    /// The error with its hint, without what differs from one answer to the next: the text of
    /// conditions and Events, which are written again when it changes.
    pub fn lasting(&self) -> String {
        let said = self.code_and_message();
        let said = match said.find(ENCODED) {
            Some(at) => said[..at].trim_end(),
            None => &said,
        };
        let said = said.trim_end_matches('.');
        match (self.call.action(), self.hint()) {
            (action, hint) if hint.is_empty() => format!("{action}: {said}"),
            (action, hint) => format!("{action}: {said}; {hint}"),
        }
    }

    /// What can be done about it; empty if nothing better than to wait is known.
    pub fn hint(&self) -> String {
        let action = self.call.action();
        match (self.class, &*self.code) {
            (_, code) if EXPIRED.contains(&code) => {
                "the credentials have expired; see that the role can be assumed again and that \
                 the clock is right"
                    .to_owned()
            }
            (_, "OptInRequired") => "the account has not enabled the region or the service".into(),
            (Class::Unauthorized, code) if NOT_ACCEPTED.contains(&code) => {
                "AWS does not accept the credentials; see that this machine's clock is right, and \
                 that the role or the key still exists"
                    .to_owned()
            }
            (_, "QueueDoesNotExist" | "AWS.SimpleQueueService.NonExistentQueue") => {
                "create the queue, or correct --interruption-queue (INTERRUPTION_QUEUE); it is a \
                 name in this region and account"
                    .to_owned()
            }
            (Class::Unauthorized, _) => {
                // A launch is refused for what it passes on as well, such as iam:PassRole.
                let (action, on) = denied(&self.message).unwrap_or((&action, None));
                let on = on.map_or(String::new(), |on| format!(" on {on}"));
                let cause = match () {
                    () if self.message.contains("service control policy") => {
                        "; a service control policy of the organization denies it"
                    }
                    () if self.message.contains("permissions boundary") => {
                        "; the permissions boundary of the role does not allow it"
                    }
                    () => "",
                };
                format!("allow {action}{on} in the policy of Longshore's role{cause}")
            }
            (Class::Quota, _) => "ask AWS for a higher limit in Service Quotas".to_owned(),
            (Class::SpotRole, _) => "create the role once: aws iam create-service-linked-role \
                                     --aws-service-name spot.amazonaws.com"
                .to_owned(),
            (Class::Unknown, "") if self.message.contains("credential") => {
                "give Longshore's service account a role by IRSA or Pod Identity, or the instance \
                 a profile"
                    .to_owned()
            }
            (Class::Unknown, "") => {
                "see that the endpoint is that of AWS, and that a firewall or a proxy lets it through"
                    .to_owned()
            }
            _ => String::new(),
        }
    }

    /// The message with its hint.
    pub fn with_hint(&self) -> String {
        match self.hint() {
            hint if hint.is_empty() => self.to_string(),
            hint => format!("{self}; {hint}"),
        }
    }
}

/// Codes of credentials that have expired.
const EXPIRED: [&str; 3] = ["ExpiredToken", "ExpiredTokenException", "RequestExpired"];
/// Codes of credentials that are not accepted, or of a clock that is wrong: a request is signed with
/// the time.
const NOT_ACCEPTED: [&str; 6] = [
    "AuthFailure",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

/// What precedes a text that only `sts:DecodeAuthorizationMessage` can read, new in each answer.
const ENCODED: &str = "Encoded authorization failure message";

/// The action that a message says is denied, and the resource, if it names one.
fn denied(message: &str) -> Option<(&str, Option<&str>)> {
    let word = |text: &'static str| {
        let rest = message.split_once(text)?.1;
        let word = rest.split_whitespace().next()?;
        Some(word.trim_end_matches(['.', ',', ';']))
    };
    let action = word("not authorized to perform: ").filter(|word| word.contains(':'))?;
    Some((action, word("on resource: ")))
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call.action(), self.said())
    }
}

impl std::error::Error for ApiError {}

impl From<ApiError> for CloudError {
    fn from(error: ApiError) -> Self {
        let text = error.lasting();
        match error.class {
            Class::Throttled => CloudError::Throttled(text),
            Class::Unauthorized => CloudError::Unauthorized(text),
            Class::NotFound => CloudError::NotFound(text),
            Class::Invalid => CloudError::Invalid(text),
            Class::Capacity | Class::SubnetFull | Class::Quota | Class::SpotRole => {
                CloudError::InsufficientCapacity(text.into())
            }
            Class::TemplateGone | Class::TokenReused | Class::AsWished | Class::Unknown => {
                CloudError::Other(text)
            }
        }
    }
}

/// What to do about a code; `message` tells apart what has the same code.
pub fn classify(code: &str, message: &str) -> Class {
    match code {
        "InsufficientFreeAddressesInSubnet" => Class::SubnetFull,
        "VcpuLimitExceeded"
        | "MaxSpotInstanceCountExceeded"
        | "MaxFleetCountExceeded"
        | "InstanceLimitExceeded" => Class::Quota,
        "InsufficientInstanceCapacity"
        | "InsufficientCapacity"
        | "UnfulfillableCapacity"
        | "Unsupported"
        | "ReservationCapacityExceeded"
        | "SpotMaxPriceTooLow"
        | "InvalidCapacityReservationState.Unavailable" => Class::Capacity,
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted" => Class::SpotRole,
        "InvalidLaunchTemplateName.NotFoundException"
        | "InvalidLaunchTemplateId.NotFound"
        | "InvalidLaunchTemplateId.NotFoundException" => Class::TemplateGone,
        "InvalidInstanceID.NotFound"
        | "InvalidInstanceID.Malformed"
        | "InvalidCapacityReservationId.NotFound"
        | "InvalidPlacementGroup.Unknown"
        | "InvalidPlacementGroupId.NotFound"
        | "NoSuchEntity"
        | "ParameterNotFound"
        | "QueueDoesNotExist"
        | "AWS.SimpleQueueService.NonExistentQueue"
        | "ResourceNotFoundException" => Class::NotFound,
        "DryRunOperation" | "EntityAlreadyExists" | "EntityAlreadyExistsException" => {
            Class::AsWished
        }
        "InvalidLaunchTemplateName.AlreadyExistsException" => Class::AsWished,
        "IdempotentParameterMismatch" => Class::TokenReused,
        "RequestLimitExceeded"
        | "RequestThrottled"
        | "TooManyRequestsException"
        | "RequestThrottledException" => Class::Throttled,
        "UnauthorizedOperation"
        | "AccessDenied"
        | "AccessDeniedException"
        | "AuthFailure"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "RequestExpired"
        | "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "SignatureDoesNotMatch"
        | "InvalidSignatureException"
        | "RequestTimeTooSkewed"
        | "IncompleteSignature"
        | "MissingAuthenticationToken"
        | "OptInRequired" => Class::Unauthorized,
        "InternalError" | "InternalFailure" | "ServiceUnavailable" | "Unavailable" | "" => {
            Class::Unknown
        }
        "PendingVerification" => Class::Invalid,
        code if code.starts_with("Throttl") => Class::Throttled,
        code if code.starts_with("Invalid") || code.starts_with("Missing") => Class::Invalid,
        code if code.ends_with(".NotFound") => Class::Invalid,
        _ if Wording::of(message) == Some(Wording::SpreadFull) => Class::Capacity,
        _ => Class::Invalid,
    }
}

/// What only the words of a message say: EC2 answers with one code for several faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wording {
    /// The user data has more bytes than EC2 takes.
    UserDataTooLarge,
    /// There is no such instance profile, or EC2 does not see it yet.
    ProfileUnknown,
    /// The instance profile has no role, or EC2 does not see that yet.
    ProfileWithoutRole,
    /// A spread placement group has no room in a zone.
    SpreadFull,
}

impl Wording {
    const WORDS: [(&str, Wording); 5] = [
        ("User data is limited to", Wording::UserDataTooLarge),
        ("Invalid IAM Instance Profile", Wording::ProfileUnknown),
        (
            "iamInstanceProfile.name is invalid",
            Wording::ProfileUnknown,
        ),
        ("has no associated IAM Roles", Wording::ProfileWithoutRole),
        (
            "limit of instances in this spread placement group",
            Wording::SpreadFull,
        ),
    ];

    /// What a message of EC2 says, if it is one of these.
    pub fn of(message: &str) -> Option<Wording> {
        let mut known = Wording::WORDS.iter();
        let found = known.find(|(words, _)| message.contains(words));
        found.map(|(_, wording)| *wording)
    }
}

/// The reason of a NodeClaim's condition Launched for a launch that failed, as Karpenter's users
/// know it.
pub fn launch_reason(code: &str, message: &str) -> &'static str {
    let has = |part: &str| code.contains(part) || message.contains(part);
    let wording = Wording::of(message);
    match () {
        () if has("ServiceLinkedRoleCreationNotPermitted") => "SpotSLRCreationFailed",
        () if has("Not authorized for images") => "AMIAuthorizationFailure",
        () if has("UnauthorizedOperation") || has("AccessDenied") || code == "AuthFailure" => {
            "Unauthorized"
        }
        () if has("belong to different networks") => "SecurityGroupSubnetVPCMismatch",
        () if wording == Some(Wording::ProfileUnknown) => "InstanceProfileNameInvalid",
        () if has("InvalidLaunchTemplate") => "LaunchTemplateNotFound",
        () if wording == Some(Wording::UserDataTooLarge) => "UserDataSizeLimitExceeded",
        () if has("InvalidAMIID.Malformed") => "InvalidAMIID",
        () if has("InvalidAMIID") => "AMINotFound",
        () if has("RequestLimitExceeded") => "RequestLimitExceeded",
        () if has("InternalError") => "InternalError",
        () if has("not eligible for Free Tier") => "FreeTierIneligible",
        () if has("MaxFleetCountExceeded") => "FleetQuotaExceeded",
        () if has("PendingVerification") => "AccountPendingVerification",
        () if has("MaxSpotInstanceCountExceeded") => "SpotQuotaExceeded",
        () if has("VcpuLimitExceeded") => "VCPULimitExceeded",
        () if has("InsufficientFreeAddressesInSubnet") => "InsufficientFreeAddressesInSubnet",
        () => "LaunchFailed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart_by_what_to_do() {
        let cases = [
            ("InsufficientInstanceCapacity", Class::Capacity),
            ("SpotMaxPriceTooLow", Class::Capacity),
            ("InsufficientFreeAddressesInSubnet", Class::SubnetFull),
            ("MaxSpotInstanceCountExceeded", Class::Quota),
            (
                "InvalidLaunchTemplateName.NotFoundException",
                Class::TemplateGone,
            ),
            ("InvalidInstanceID.NotFound", Class::NotFound),
            ("Throttling", Class::Throttled),
            ("ThrottlingException", Class::Throttled),
            ("RequestLimitExceeded", Class::Throttled),
            ("UnauthorizedOperation", Class::Unauthorized),
            ("IdempotentParameterMismatch", Class::TokenReused),
            ("DryRunOperation", Class::AsWished),
            ("InvalidSubnetID.NotFound", Class::Invalid),
            ("InvalidAMIID.Unavailable", Class::Invalid),
            ("SomethingNew", Class::Invalid),
            ("InternalError", Class::Unknown),
            ("", Class::Unknown),
        ];
        for (code, class) in cases {
            assert_eq!(classify(code, ""), class, "{code}");
        }
    }

    #[test]
    fn what_is_denied_says_which_action_to_allow() {
        let message = "not authorized because no permissions boundary allows the action";
        let error = ApiError::new(Call::CreateFleet, "UnauthorizedOperation", message);
        expect_test::expect![[r#"
            ec2:CreateFleet: UnauthorizedOperation: not authorized because no permissions boundary allows the action; allow ec2:CreateFleet in the policy of Longshore's role; the permissions boundary of the role does not allow it"#]]
        .assert_eq(&error.with_hint());
        assert!(matches!(error.into(), CloudError::Unauthorized(_)));
    }

    #[test]
    fn what_differs_between_answers_is_no_part_of_a_condition() {
        let answer = |number: u32| {
            let message = format!(
                "User: a is not authorized to perform: iam:PassRole on resource: arn:aws:iam::1:role/n \
                 because no policy allows it. Encoded authorization failure message: {number}"
            );
            let mut error = ApiError::new(Call::RunInstances, "UnauthorizedOperation", &message);
            error.request = number.to_string();
            error
        };
        assert_ne!(answer(1).with_hint(), answer(2).with_hint());
        assert_eq!(answer(1).lasting(), answer(2).lasting());
        expect_test::expect![[r#"
            ec2:RunInstances: UnauthorizedOperation: User: a is not authorized to perform: iam:PassRole on resource: arn:aws:iam::1:role/n because no policy allows it; allow iam:PassRole on arn:aws:iam::1:role/n in the policy of Longshore's role"#]]
        .assert_eq(&answer(1).lasting());
    }

    #[test]
    fn a_throttled_launch_is_no_shortage() {
        let error = ApiError::new(Call::CreateFleet, "RequestLimitExceeded", "slow down");
        assert!(matches!(error.into(), CloudError::Throttled(_)));
    }
}
