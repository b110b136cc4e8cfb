//! STS: the identity of the caller, and credentials that nothing checks.

use crate::action::Context;
use crate::time::SECOND;
use crate::wire::{Params, Refusal, Xml, element, text};
use crate::world::World;

pub(crate) fn answer(
    world: &mut World,
    context: &Context,
    params: &Params,
) -> Result<Vec<Xml>, Refusal> {
    match &*context.action {
        "GetCallerIdentity" => Ok(vec![
            text("Arn", world.account.arn("iam", "user/emulator")),
            text("UserId", "AIDAEMULATOR00000000"),
            text("Account", &world.account.id),
        ]),
        "AssumeRole" => assume(world, context, params, None),
        "AssumeRoleWithWebIdentity" => {
            let token = params.root().need("WebIdentityToken")?;
            assume(world, context, params, Some(token))
        }
        other => Err(crate::iam::invalid_action(other, "2011-06-15")),
    }
}

fn assume(
    world: &mut World,
    context: &Context,
    params: &Params,
    token: Option<&str>,
) -> Result<Vec<Xml>, Refusal> {
    let params = params.root();
    let role = params.need("RoleArn")?;
    let session = params.need("RoleSessionName")?;
    let seconds: i64 = params.parse("DurationSeconds")?.unwrap_or(3600);
    let Some((_, name)) = role.split_once(":role/") else {
        return Err(Refusal::new(
            "ValidationError",
            format!("{role} is invalid"),
        ));
    };
    let name = name.rsplit('/').next().unwrap_or(name);
    let key = world.chance.letters(16);
    let secret = world.chance.hex(40);
    let session_token = world.chance.hex(64);
    let credentials = element(
        "Credentials",
        [
            text("AccessKeyId", format!("ASIA{key}")),
            text("SecretAccessKey", secret),
            text("SessionToken", session_token),
            text("Expiration", context.now.plus(seconds * SECOND).iso()),
        ],
    );
    let user = element(
        "AssumedRoleUser",
        [
            text("AssumedRoleId", format!("AROA{key}:{session}")),
            text(
                "Arn",
                world
                    .account
                    .arn("sts", &format!("assumed-role/{name}/{session}")),
            ),
        ],
    );
    let mut all = vec![credentials, user];
    if token.is_some() {
        all.push(text(
            "SubjectFromWebIdentityToken",
            "system:serviceaccount:kube-system:longshore",
        ));
        all.push(text("Audience", "sts.amazonaws.com"));
    }
    Ok(all)
}
