//! The emulator's own paths: `/_emulator/faults`, `/_emulator/calls`, `/_emulator/world`.

use serde_json::json;

use crate::time::Time;
use crate::wire::{Reply, Request};
use crate::world::World;

/// Answers a request to the emulator itself.
pub(crate) fn answer(world: &mut World, now: Time, request: &Request) -> Reply {
    match (&*request.method, &*request.path) {
        ("POST", "/_emulator/faults") => match world.add_faults(now, &request.body) {
            Ok(count) => reply(200, &json!({"accepted": count})),
            Err(error) => reply(400, &json!({"error": error.to_string()})),
        },
        ("DELETE", "/_emulator/faults") => {
            world.clear_faults();
            reply(200, &json!({}))
        }
        ("GET", "/_emulator/faults") => reply(200, &json!({"faults": world.faults.list()})),
        ("GET", "/_emulator/calls") => match after(&request.query) {
            Ok(number) => {
                let calls: Vec<_> = world.calls.after(number).collect();
                reply(200, &json!({"calls": calls}))
            }
            Err(error) => reply(400, &json!({"error": error})),
        },
        ("GET", "/_emulator/world") => reply(200, &world.dump(now)),
        ("GET", "/_emulator/nodes") => reply(200, &crate::kubelet::list(world, now)),
        (method, path) => {
            let known = "POST, DELETE and GET /_emulator/faults, GET /_emulator/calls?after=N, \
                         GET /_emulator/world, GET /_emulator/nodes";
            let error = format!("nothing answers {method} {path}; there are {known}");
            reply(404, &json!({"error": error}))
        }
    }
}

fn after(query: &str) -> Result<u64, String> {
    let mut number = 0;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match (&*name, value.parse()) {
            ("after", Ok(given)) => number = given,
            ("after", Err(_)) => return Err(format!("`after={value}` is not a number")),
            (other, _) => return Err(format!("there is no parameter `{other}`; there is `after`")),
        }
    }
    Ok(number)
}

fn reply(status: u16, value: &serde_json::Value) -> Reply {
    Reply::new(status, "application/json", value.to_string())
}
