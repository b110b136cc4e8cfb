//! A real API server, asked through kubectl. Objects that are to be changed are created and deleted
//! again; all else is a dry run.

use std::io::Write as _;
use std::process::Stdio;

use longshore_xtask::control_plane::ControlPlane;
use serde_json::Value;

use crate::table::Case;

pub struct Server(pub ControlPlane);

impl Server {
    /// What the server says against a case, if anything. `name` is the object's; it is not left
    /// behind.
    pub fn ask(&self, case: &Case, name: &str) -> Result<(), String> {
        let named = |mut object: Value| {
            object["metadata"]["name"] = name.into();
            object.to_string()
        };
        let create = ["create", "--validate=false", "-f", "-"];
        if !case.is_change && !case.is_status {
            let dry = [&create[..], &["--dry-run=server"]].concat();
            return self.run(&dry, &named(case.result())).map(drop);
        }
        self.run(&create, &named(case.object.clone()))
            .unwrap_or_else(|error| panic!("{}: {error}", case.what));
        let kind = case.kind.to_lowercase();
        let patch = case.patch.to_string();
        let mut change = vec![
            "patch",
            &kind,
            name,
            "--type=merge",
            "--dry-run=server",
            "--patch",
            &patch,
        ];
        if case.is_status {
            change.push("--subresource=status");
        }
        let answer = self.run(&change, "");
        let _ = self.run(&["delete", "--wait=false", &kind, name], "");
        answer.map(drop)
    }

    /// Runs kubectl; fails with what it says on its standard error.
    fn run(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut command = self.0.kubectl().map_err(|error| format!("{error:#}"))?;
        command.args(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let failed = |error: std::io::Error| format!("cannot run kubectl: {error}");
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // kubectl may end without reading, and then says why.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

/// How a server puts that a keyword does not hold; a rule's message it repeats.
pub fn words(because: &str) -> &str {
    match because {
        "duplicate" => "Duplicate value",
        "enum" => "Unsupported value",
        "maximum" => "should be less than or equal to",
        "maxItems" | "maxProperties" => "Too many",
        "maxLength" => "Too long",
        "minimum" => "should be greater than or equal to",
        "minLength" => "should be at least",
        "pattern" => "should match",
        "required" => "Required value",
        "type" => "must be of type",
        message => message,
    }
}
