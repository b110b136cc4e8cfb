//! Components made by hand, of answers that no compiler gives: each is reported in words, and the price
//! answers.

use std::path::Path;

use longshore_policy::{LoadError, Refusal, Terms};

use crate::common::hostile::failure;
use crate::common::{HOST, says, serve};

#[allow(dead_code, reason = "its other users need the rest")]
#[path = "../../daemon/tests/reload/guest.rs"]
mod guest;

use guest::{Way, guest};

fn load(way: Way) -> Result<longshore_policy::LoadedPolicy, LoadError> {
    let (terms, path) = (Terms::everything(), Path::new("crafted.wasm"));
    HOST.load_bytes(&terms, path, &guest("6.6.6", way), None)
}

#[test]
fn answers_that_are_none_are_reported_and_the_price_answers() {
    for (way, expected) in [
        (Way::WildList, "out of bounds"),
        (Way::LongList, "out of bounds"),
        (Way::Unaligned, "not aligned"),
        (Way::WrongCase, "discriminant"),
        (Way::Grows, "wants more than 67108864 bytes of memory"),
        (Way::TableGrows, "wants more than 67108864 bytes of memory"),
        (Way::Loops, "ran out of fuel"),
        (Way::Short, "costs for 600 offerings"),
    ] {
        let said = failure(&serve(load(way).unwrap()));
        assert!(says(&said, expected), "{way:?}: {said}");
        assert!(said.starts_with("score: "), "{way:?}: {said}");
    }
}

#[test]
fn what_goes_wrong_before_the_first_question_is_a_reason_not_to_load() {
    for (way, expected) in [
        (Way::StartTraps, "instantiate: wasm trap"),
        (Way::StartLoops, "instantiate: ran out of fuel"),
        (Way::TrapsAtDescribe, "describe: wasm trap"),
    ] {
        let Err(LoadError::Refused {
            refusal: Refusal::Start(error),
            ..
        }) = load(way)
        else {
            panic!("{way:?} does not start")
        };
        let said = error.to_string();
        assert!(says(&said, expected), "{way:?}: {said}");
    }
    let refused = load(Way::RefusesSettings).unwrap_err();
    assert!(matches!(refused, LoadError::Settings { .. }), "{refused:?}");
}
