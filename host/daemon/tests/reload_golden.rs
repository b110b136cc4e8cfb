//! A component is asked its own golden vectors before it is used.

use crate::reload::guest::{Way, guest};
use crate::scene::Scene;
use longshore_live::policies::NoticeKind;
use longshore_policy::golden::with_cases;

const CASE: &str = "expected = [1.0, 1.0]\n
[[offerings]]\ninstance-type = 'm7g.large'\nzone = 'us-east-1a'\nprice = 0.0816\n
[[offerings]]\ninstance-type = 't4g.nano'\nzone = 'us-east-1a'\nprice = 0.0042\n";

/// A component for which every offering costs so much, and which says of itself that it is 1.
fn says_one(cost: f64) -> Vec<u8> {
    let cases = [("spot".to_owned(), CASE.to_owned())];
    with_cases(&guest("1.0.0", Way::Costs(cost)), &cases).unwrap()
}

fn scene(name: &str, component: &[u8]) -> Scene {
    let config = b"[[policy]]\nname = 'one'\npath = 'one.wasm'\n";
    Scene::new(name, &[("longshore.toml", config), ("one.wasm", component)])
}

#[test]
fn a_vector_that_is_not_met_refuses_the_swap_and_the_old_version_runs_on() {
    let mut scene = scene("golden", &says_one(1.0));
    assert_eq!((scene.cost(), scene.error("one")), (1.0, String::new()));
    scene.kinds();
    scene.rename("one.wasm", &says_one(2.0));
    scene.settle();
    scene.round();
    assert_eq!(scene.cost(), 1.0);
    assert_eq!(scene.kinds(), [NoticeKind::PolicyRefused]);
    let said = scene.error("one");
    let unmet = "golden vector `spot` is not met: offering 0 (m7g.large us-east-1a ) costs 2, and 1 is expected";
    assert!(said.contains(unmet), "{said}");
    // Mended, it is taken over.
    scene.rename("one.wasm", &guest("1.0.1", Way::Costs(2.0)));
    scene.settle();
    scene.round();
    assert_eq!((scene.cost(), scene.error("one")), (2.0, String::new()));
}

#[test]
fn one_flipped_bit_of_a_vector_refuses_it() {
    let mut scene = scene("golden-flipped", &says_one(1.0));
    let mut flipped = says_one(1.0);
    let at = flipped
        .windows(8)
        .position(|bytes| bytes == b"[1.0, 1.")
        .unwrap();
    flipped[at + 1] ^= 2;
    scene.rename("one.wasm", &flipped);
    scene.settle();
    scene.round();
    assert_eq!(scene.cost(), 1.0);
    assert!(
        scene.error("one").contains("costs 1, and 3 is expected"),
        "{}",
        scene.error("one")
    );
}

#[test]
fn vectors_that_cannot_be_read_refuse_a_component() {
    let mut scene = scene("golden-unread", &says_one(1.0));
    let cases = [("spot".to_owned(), "expected = [".to_owned())];
    let bytes = with_cases(&guest("1.0.0", Way::Costs(1.0)), &cases).unwrap();
    scene.rename("one.wasm", &bytes);
    scene.settle();
    scene.round();
    let said = scene.error("one");
    assert!(
        said.contains("golden vector `spot` is not met: TOML parse error"),
        "{said}"
    );
}
