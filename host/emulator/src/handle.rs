//! From a request to a response.

use crate::action::{Answer, Context};
use crate::faults::{Garbled, Met, When};
use crate::time::Time;
use crate::wire::{Call, Params, Refusal, Reply, Request, Service, document, element, route, text};
use crate::world::World;
use crate::world::queue::Poll;
use crate::{calls, control, ec2, eks, iam, permissions, pricing, sqs, ssm, sts, zonal_shift};

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// A reply, this many milliseconds from now.
    Reply {
        reply: Reply,
        /// How long the client waits for it.
        delay: i64,
    },
    /// A long poll: call [`resume`] when the world has changed, and at `until` at the latest.
    Wait(Box<Wait>),
    /// The connection ends without a reply, this many milliseconds from now.
    Drop {
        /// How long the client waits for nothing.
        delay: i64,
    },
}

/// A long poll that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// When it ends without a message.
    pub until: Time,
    poll: Poll,
    open: Open,
}

/// A call that has no reply yet.
#[derive(Clone, Debug, PartialEq)]
struct Open {
    service: Service,
    number: u64,
    request_id: String,
    met: Met,
}

/// Answers a request. Everything that is due at `now` happens first; `now` must not go back.
pub fn handle(world: &mut World, now: Time, request: &Request) -> Response {
    world.advance(now);
    if request.path.starts_with("/_emulator/") {
        let reply = control::answer(world, now, request);
        return Response::Reply { reply, delay: 0 };
    }
    let request_id = world.chance.uuid();
    let Some(call) = route(request, &world.account.region) else {
        let message = "no service of the emulator is meant: it has ec2, sqs, ssm, iam, eks, \
                       pricing, sts and arc-zonal-shift, told apart by the signature's scope or X-Amz-Target";
        let reply = Refusal::new("UnknownService", message).reply(Service::Eks, &request_id);
        return Response::Reply { reply, delay: 0 };
    };
    let body = match request.body.is_empty() {
        true => request.path.as_str().into(),
        false => request.text(),
    };
    let (service, name) = (call.service, call.service.name());
    let number = world.calls.add(now, name, &call.action, &body, &request_id);
    let met = world
        .faults
        .meet(service, &call.action, &body, &mut world.chance);
    let names = met.names.clone();
    world.calls.change(number, |logged| logged.faults = names);
    let open = Open {
        service,
        number,
        request_id,
        met,
    };
    if open.met.drop == Some(When::Before) {
        return Response::Drop {
            delay: open.met.delay,
        };
    }
    match answer(world, now, request, call, &open) {
        Ok(Answer::Poll(poll, until)) => Response::Wait(Box::new(Wait { until, poll, open })),
        result => finish(world, now, open, result),
    }
}

/// Goes on with a long poll.
pub fn resume(world: &mut World, now: Time, wait: Wait) -> Response {
    world.advance(now);
    match sqs::poll(world, now, &wait.poll) {
        Ok(Some(found)) => finish(world, now, wait.open, Ok(Answer::Json(found))),
        Ok(None) if now < wait.until => Response::Wait(Box::new(wait)),
        Ok(None) => finish(
            world,
            now,
            wait.open,
            Ok(Answer::Json(serde_json::json!({}))),
        ),
        Err(refusal) => finish(world, now, wait.open, Err(refusal)),
    }
}

fn answer(
    world: &mut World,
    now: Time,
    request: &Request,
    call: Call,
    open: &Open,
) -> Result<Answer, Refusal> {
    if let Some(wrong) = call.wrong {
        return Err(wrong);
    }
    let params = match call.service {
        Service::Ec2 | Service::Iam | Service::Sts if request.body.is_empty() => {
            Params::parse(request.query.as_bytes())
        }
        Service::Ec2 | Service::Iam | Service::Sts => Params::parse(&request.body),
        _ => Params::default(),
    };
    throttle(world, now, &call, &params, open)?;
    permissions::check(world, &call, &params, request)?;
    if let Some(refusal) = &open.met.before {
        return Err(refusal.clone());
    }
    let host = request.header("host").unwrap_or("localhost");
    let context = Context {
        now,
        as_of: world.as_of(now),
        action: call.action,
        host: format!("http://{host}"),
    };
    match call.service {
        Service::Ec2 => ec2::answer(world, &context, &params, &open.request_id),
        Service::Iam => iam::answer(world, &context, &params).map(Answer::Xml),
        Service::Sts => sts::answer(world, &context, &params).map(Answer::Xml),
        Service::Sqs => sqs::answer(world, &context, &request.body),
        Service::Ssm => ssm::answer(world, &context, &request.body).map(Answer::Json),
        Service::Pricing => pricing::answer(world, &context, &request.body).map(Answer::Json),
        Service::Eks => eks::answer(world, &context, &request.path).map(Answer::Json),
        Service::ZonalShift => {
            zonal_shift::answer(world, &context, &request.path).map(Answer::Json)
        }
    }
}

fn throttle(
    world: &mut World,
    now: Time,
    call: &Call,
    params: &Params,
    open: &Open,
) -> Result<(), Refusal> {
    if open.met.share == Some(0.0) {
        return Err(crate::throttle::refusal(call.service));
    }
    if !world.account.settings.throttle && open.met.share.is_none() {
        return Ok(());
    }
    let narrow = |name: &String| {
        ["Filter.", "MaxResults", "InstanceId.", "GroupId."]
            .iter()
            .any(|own| name.starts_with(own))
    };
    let plain = !params.all().keys().any(narrow);
    let share = open.met.share.unwrap_or(1.0);
    world
        .buckets
        .call(call.service, &call.action, plain, share, now)
}

/// Turns a result into a response; faults that strike after the commit strike here.
fn finish(world: &mut World, now: Time, open: Open, result: Result<Answer, Refusal>) -> Response {
    let Open {
        service,
        number,
        request_id,
        met,
    } = open;
    let action = world
        .calls
        .after(number - 1)
        .next()
        .map(|logged| logged.action.clone());
    let result = match met.after.clone() {
        Some(refusal) => Err(refusal),
        None => result,
    };
    let error = result.as_ref().err().map(|refusal| refusal.code.clone());
    let mut reply = match result {
        Ok(answer) => success(service, &action.unwrap_or_default(), answer, &request_id),
        Err(refusal) => refusal.reply(service, &request_id),
    };
    if let Some(garbled) = &met.body {
        garble(&mut reply, garbled);
    }
    let id_header = match service {
        Service::Ec2 | Service::Ssm | Service::Iam | Service::Sts => "x-amzn-requestid",
        _ => "x-amzn-RequestId",
    };
    let reply = reply
        .with(&id_header.to_lowercase(), request_id)
        .with("date", now.http());
    let dropped = met.drop.is_some();
    let body = world.account.settings.log_replies && !dropped;
    let body = body.then(|| calls::beginning(&String::from_utf8_lossy(&reply.body)));
    world.calls.change(number, |logged| {
        logged.status = (!dropped).then_some(reply.status);
        logged.reply = body;
        logged.error = error;
    });
    match dropped {
        true => Response::Drop { delay: met.delay },
        false => Response::Reply {
            reply,
            delay: met.delay,
        },
    }
}

fn garble(reply: &mut Reply, garbled: &Garbled) {
    if let Some(body) = &garbled.body {
        reply.body = body.clone().into_bytes();
    }
    if let Some(bytes) = garbled.bytes {
        reply.body.truncate(bytes);
    }
    reply.status = garbled.status.unwrap_or(reply.status);
}

fn success(service: Service, action: &str, answer: Answer, request_id: &str) -> Reply {
    let namespace = service.namespace();
    match (service, answer) {
        (_, Answer::Again(reply)) => reply,
        (Service::Ec2, Answer::Xml(inside)) => ec2::reply(action, inside, request_id),
        (_, Answer::Xml(inside)) => {
            let mut parts = Vec::new();
            if !inside.is_empty() {
                parts.push(element(format!("{action}Result"), inside));
            }
            parts.push(element("ResponseMetadata", [text("RequestId", request_id)]));
            let root = element(format!("{action}Response"), parts);
            Reply::new(200, "text/xml", document(&root, namespace))
        }
        (Service::Eks | Service::ZonalShift, Answer::Json(value)) => {
            Reply::new(200, "application/json", value.to_string())
        }
        (Service::Sqs, Answer::Json(value)) => {
            Reply::new(200, "application/x-amz-json-1.0", value.to_string())
        }
        (_, Answer::Json(value)) => {
            Reply::new(200, "application/x-amz-json-1.1", value.to_string())
        }
        (_, Answer::Poll(..)) => Reply::new(200, "application/x-amz-json-1.0", "{}"),
    }
}
