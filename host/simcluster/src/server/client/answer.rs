//! Answers requests: parses the request, carries it out, encodes the result.

use std::sync::Arc;

use http::{Request, Response};
use serde_json::{Map, Value, json};

use super::list;
use super::request::{self, AsOf, Body, Head, Parameters, RequestPath};
use crate::object::Subresource;
use crate::server::api_error::ApiErrorWithDetails;
use crate::server::apply::Manager;
use crate::server::delete::{self, DeleteOptions, Deleted};
use crate::server::meta::{self, text};
use crate::server::resources::{NAMESPACE, PERSISTENT_VOLUME_CLAIM, POD, SERVICE, SERVICE_ACCOUNT};
use crate::server::state::{Server, ServerState};
use crate::server::store::Stored;
use crate::server::write::{self, WriteOptions};
use crate::server::{apply, patch, pods};

type Answer = Result<Response<Body>, ApiErrorWithDetails>;

/// One request.
struct Call<'a> {
    server: &'a Server,
    client: &'a str,
    place: RequestPath,
    parameters: Parameters,
    partial: bool,
    manner: WriteOptions,
    request: &'a Request<Vec<u8>>,
}

pub fn answer(server: &Server, client: &str, head: Head, request: &Request<Vec<u8>>) -> Answer {
    let path = request.uri().path();
    if matches!(path, "/healthz" | "/livez" | "/readyz") {
        return Ok(request::answer(200, "ok"));
    }
    if path == "/version" {
        let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.4", "platform": "linux/amd64"});
        return Ok(request::answer(200, version.to_string()));
    }
    let Head {
        place,
        parameters,
        verb,
    } = head;
    let place = place.ok_or_else(ApiErrorWithDetails::nowhere)?;
    let header = |name: &str| {
        request
            .headers()
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
    };
    let field_manager = match parameters.get("fieldManager") {
        // As a real server takes the name of the client program.
        "" => match header("user-agent").split('/').next().unwrap_or_default() {
            "" => client,
            agent => agent,
        },
        given => given,
    };
    let manager = Manager {
        subresource: place.sub.clone(),
        ..Manager::update(field_manager)
    };
    let manner = WriteOptions {
        manager,
        dry_run: parameters.get("dryRun") == "All",
        blind: false,
    };
    let partial = list::is_partial(header("accept"));
    let call = Call {
        server,
        client,
        place,
        parameters,
        partial,
        manner,
        request,
    };
    match (verb, call.place.sub.as_str()) {
        ("watch", "") => call.watch(),
        ("list", "") => call.list(),
        ("get", "" | "status") => call.get(),
        ("create", "") if call.place.name.is_empty() => call.create(),
        ("create", "binding") if call.place.resource == POD => call.bind(),
        ("create", "eviction") if call.place.resource == POD => call.evict(),
        ("update", "finalize") if call.place.resource == NAMESPACE => call.finalize(),
        ("update", "" | "status") if !call.place.name.is_empty() => call.update(),
        ("patch", "" | "status") if !call.place.name.is_empty() => call.patch(),
        ("delete", "") => call.delete(),
        ("deletecollection", "") => call.delete_collection(),
        (_, "" | "status") => Err(ApiErrorWithDetails::no_such_verb()),
        _ => Err(ApiErrorWithDetails::nowhere()),
    }
}

impl Call<'_> {
    fn sub(&self) -> Result<Subresource, ApiErrorWithDetails> {
        match self.place.sub.as_str() {
            "status" if self.place.resource.has_status() => Ok(Subresource::Status),
            "status" => Err(ApiErrorWithDetails::nowhere()),
            _ => Ok(Subresource::Object),
        }
    }

    fn current(&self, state: &ServerState) -> Result<Arc<Stored>, ApiErrorWithDetails> {
        write::current(
            state,
            self.place.resource,
            &self.place.namespace,
            &self.place.name,
        )
    }

    fn show(&self, code: u16, stored: &Stored) -> Response<Body> {
        match self.partial {
            true => request::answer(code, stored.partial().to_owned()),
            false => request::answer(code, stored.text().clone()),
        }
    }

    /// The body as JSON; YAML is not read.
    fn body(&self) -> Result<Value, ApiErrorWithDetails> {
        let text = self.request.body();
        let found = text
            .iter()
            .copied()
            .find(|b| !b.is_ascii_whitespace())
            .map_or("nothing", |_| "something else");
        serde_json::from_slice(text).map_err(|error| {
            ApiErrorWithDetails::bad(format!(
                "couldn't get version/kind; json parse error: {error} ({found} was sent)"
            ))
        })
    }

    /// The body as options of a deletion; there may be none.
    fn options(&self) -> Result<DeleteOptions, ApiErrorWithDetails> {
        let mut body = match self.request.body().is_empty() {
            true => json!({}),
            false => self.body()?,
        };
        let fields = meta::fields(&mut body);
        for name in ["propagationPolicy", "gracePeriodSeconds"] {
            let given = self.parameters.get(name);
            if !given.is_empty() && !fields.contains_key(name) {
                let number = given.parse::<i64>().map(|n| json!(n));
                fields.insert(name.to_owned(), number.unwrap_or_else(|_| json!(given)));
            }
        }
        let mut options = DeleteOptions::read(&body)?;
        options.dry_run |= self.manner.dry_run;
        Ok(options)
    }

    fn watch(&self) -> Answer {
        let mut wanted = list::wanted(&self.place, &self.parameters, self.partial)?;
        if !self.place.name.is_empty() {
            wanted.selector = wanted.selector.named(&self.place.name);
        }
        list::watch(self.server, self.client, wanted, &self.parameters)
    }

    fn list(&self) -> Answer {
        let wanted = list::wanted(&self.place, &self.parameters, self.partial)?;
        let as_of = self.request.extensions().get::<AsOf>().copied();
        Ok(request::answer(
            200,
            list::list(&self.server.lock(), &wanted, &self.parameters, as_of)?,
        ))
    }

    fn get(&self) -> Answer {
        self.sub()?;
        let stored = self.current(&self.server.lock())?;
        Ok(self.show(200, &stored))
    }

    fn create(&self) -> Answer {
        let (resource, namespace) = self.place.collection()?;
        let body = self.body()?;
        let stored = write::create(
            &mut self.server.lock(),
            resource,
            namespace,
            body,
            &self.manner,
        )?;
        Ok(self.show(201, &stored))
    }

    fn update(&self) -> Answer {
        let sub = self.sub()?;
        let body = self.body()?;
        let mut state = self.server.lock();
        let resource = self.place.resource;
        let old = match self.current(&state) {
            Err(missing) if resource.is_created_by_update() && sub == Subresource::Object => {
                if !text(&body, &["metadata", "resourceVersion"]).is_empty() {
                    return Err(missing);
                }
                let stored = write::create(
                    &mut state,
                    resource,
                    &self.place.namespace,
                    body,
                    &self.manner,
                )?;
                return Ok(self.show(201, &stored));
            }
            other => other?,
        };
        let stored = write::replace(&mut state, &old, body, sub, &self.manner)?;
        Ok(self.show(200, &stored))
    }

    fn patch(&self) -> Answer {
        let sub = self.sub()?;
        let kind = self
            .request
            .headers()
            .get("content-type")
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let patch = self.body()?;
        if kind == "application/apply-patch+yaml" {
            return self.apply(&patch, sub);
        }
        let resource = self.place.resource;
        let mut state = self.server.lock();
        let old = self.current(&state)?;
        let mut new = (*old.value).clone();
        match kind {
            "application/json-patch+json" => patch::json(&mut new, &patch)?,
            "application/merge-patch+json" => patch::merge(&mut new, &patch),
            "application/strategic-merge-patch+json" if !resource.is_custom() => {
                patch::strategic(resource, &mut new, &patch)?;
            }
            _ => {
                return Err(ApiErrorWithDetails::media_type(
                    kind,
                    patches(resource.is_custom()),
                ));
            }
        }
        if meta::at(&new, &["metadata", "resourceVersion"]).is_none() {
            meta::metadata_mut(&mut new).remove("resourceVersion");
        }
        let manner = WriteOptions {
            blind: true,
            ..self.manner.clone()
        };
        let stored = write::replace(&mut state, &old, new, sub, &manner)?;
        Ok(self.show(200, &stored))
    }

    fn apply(&self, applied: &Value, sub: Subresource) -> Answer {
        if self.parameters.get("fieldManager").is_empty() {
            let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
            return Err(ApiErrorWithDetails::plain(422, "Invalid", message));
        }
        let RequestPath {
            resource,
            namespace,
            name,
            ..
        } = &self.place;
        let mut state = self.server.lock();
        let force = self.parameters.is("force");
        let old = self.current(&state);
        if let (Err(missing), Subresource::Status) = (&old, sub) {
            return Err(missing.clone());
        }
        let old = old.ok();
        let given = text(applied, &["metadata", "name"]);
        if !given.is_empty() && given != name {
            return Err(ApiErrorWithDetails::bad(format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            )));
        }
        let manager = Manager {
            applies: true,
            ..self.manner.manager.clone()
        };
        let before = old.as_ref().map(|old| &*old.value);
        let mut applied = applied.clone();
        if let Some(fields) = applied.as_object_mut() {
            // Nobody owns what this path cannot write.
            match sub {
                Subresource::Object if resource.has_status() => drop(fields.remove("status")),
                Subresource::Object => {}
                Subresource::Status => fields.retain(|name, _| {
                    matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status")
                }),
            }
        }
        let mut new = apply::apply(
            *resource,
            before,
            &applied,
            &manager,
            force,
            state.clock.now(),
        )?;
        let manner = WriteOptions {
            manager,
            blind: true,
            ..self.manner.clone()
        };
        match old {
            Some(old) => {
                let stored = write::replace(&mut state, &old, new, sub, &manner)?;
                Ok(self.show(200, &stored))
            }
            None => {
                meta::metadata_mut(&mut new).insert("name".into(), json!(name));
                let stored = write::create(&mut state, *resource, namespace, new, &manner)?;
                Ok(self.show(201, &stored))
            }
        }
    }

    fn delete(&self) -> Answer {
        let options = self.options()?;
        let mut state = self.server.lock();
        let old = self.current(&state)?;
        let resource = self.place.resource;
        match delete::delete(&mut state, &old, &options)? {
            Deleted::Going(stored) => Ok(self.show(200, &stored)),
            Deleted::Gone(stored)
                if matches!(
                    resource,
                    POD | PERSISTENT_VOLUME_CLAIM | SERVICE | SERVICE_ACCOUNT
                ) || resource.plural == "persistentvolumes" =>
            {
                Ok(self.show(200, &stored))
            }
            Deleted::Gone(stored) => {
                let mut details = Map::new();
                details.insert("name".into(), json!(*stored.key.name));
                if !resource.group.is_empty() {
                    details.insert("group".into(), json!(resource.group));
                }
                details.insert("kind".into(), json!(resource.plural));
                details.insert(
                    "uid".into(),
                    json!(text(&stored.value, &["metadata", "uid"])),
                );
                Ok(request::answer(
                    200,
                    request::success(&Value::Object(details)),
                ))
            }
        }
    }

    fn delete_collection(&self) -> Answer {
        self.place.collection()?;
        let options = self.options()?;
        let wanted = list::wanted(&self.place, &self.parameters, self.partial)?;
        let mut state = self.server.lock();
        let body = list::list(&state, &wanted, &Parameters::read(None), None)?;
        for stored in list::selected(&state, &wanted) {
            delete::delete(&mut state, &stored, &options)?;
        }
        Ok(request::answer(200, body))
    }

    fn bind(&self) -> Answer {
        let body = self.body()?;
        let mut state = self.server.lock();
        let pod = self.current(&state)?;
        let wanted = text(&body, &["metadata", "uid"]);
        let has = text(&pod.value, &["metadata", "uid"]);
        if !wanted.is_empty() && wanted != has {
            let why = format!(
                "Precondition failed: UID in precondition: {wanted}, UID in object meta: {has}"
            );
            return Err(ApiErrorWithDetails::conflict(POD, &self.place.name, &why));
        }
        let node = text(&body, &["target", "name"]);
        if node.is_empty() {
            let cause = crate::server::api_error::Cause::required("target.name", "");
            return Err(ApiErrorWithDetails::invalid(
                POD,
                &self.place.name,
                &[cause],
            ));
        }
        pods::bind(&mut state, &pod, node)?;
        Ok(request::answer(201, done(201)))
    }

    fn evict(&self) -> Answer {
        let body = self.body()?;
        let mut options = DeleteOptions::read(body.get("deleteOptions").unwrap_or(&json!({})))?;
        options.dry_run |= self.manner.dry_run;
        let mut state = self.server.lock();
        let pod = self.current(&state)?;
        pods::evict(&mut state, &pod, &options)?;
        Ok(request::answer(201, done(201)))
    }

    fn finalize(&self) -> Answer {
        let body = self.body()?;
        let mut state = self.server.lock();
        let old = self.current(&state)?;
        let stored = delete::finalize(&mut state, &old, &body);
        Ok(self.show(200, &stored))
    }
}

fn done(code: u16) -> String {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code})
        .to_string()
}

fn patches(custom: bool) -> &'static [&'static str] {
    const ALL: [&str; 4] = [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
        "application/strategic-merge-patch+json",
    ];
    if custom { &ALL[..3] } else { &ALL }
}
