//! `longshore render`: what nodes are made with.

use longshore_ec2::userdata::{Rendered, nodes};

use crate::Answer;
use crate::args::{Output, UserdataArgs};
use crate::error::Failure;
use crate::input;

/// Prints the user data of every node of the files. A node that cannot be rendered has an error in
/// its place.
pub fn userdata(args: &UserdataArgs) -> Result<Answer, Failure> {
    if let Some(component) = &args.bootstrap {
        return Err(Failure::Usage {
            message: format!("--bootstrap {component}: bootstrap policies are not called yet"),
            hint: "leave it out for the built-in user data".to_owned(),
        });
    }
    let all = input::all(&args.file, nodes)?;
    Ok(Answer::ok(match args.output {
        Output::Text => all.iter().map(text).collect(),
        Output::Json => format!("{:#}\n", serde_json::json!(all)),
    }))
}

/// A line with the name, then the text.
fn text(one: &Rendered) -> String {
    let end = match one.user_data.ends_with('\n') {
        true => "",
        false => "\n",
    };
    match one.error.as_str() {
        "" => format!("==> {} <==\n{}{end}", one.name, one.user_data),
        error => format!("==> {} <==\nno user data: {error}\n", one.name),
    }
}
