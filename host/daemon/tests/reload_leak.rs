//! A thousand swaps under load, every tenth broken in another way: no round is lost, and memory is
//! back where it was. Alone in its binary: it measures the whole process.
#![allow(clippy::print_stdout)]

#[path = "reload/guest.rs"]
#[allow(dead_code)]
mod guest;
#[path = "reload/scene.rs"]
#[allow(dead_code)]
mod scene;

use guest::{BROKEN, Way, guest};
use scene::Scene;

#[test]
fn a_thousand_swaps_lose_no_round_and_leave_no_memory_behind() {
    let config = b"[[policy]]\nname = 'one'\npath = 'one.wasm'\n";
    let first = guest("0.0.0", Way::Costs(1.0));
    let mut scene = Scene::new("leak", &[("longshore.toml", config), ("one.wasm", &first)]);
    let mut cost = 1.0;
    scene.cost();
    let swaps = |scene: &mut Scene, from: u32, to: u32, cost: &mut f64| {
        for nth in from..to {
            let way = match nth % 10 {
                9 => BROKEN[(nth / 10) as usize % BROKEN.len()].0,
                _ => Way::Costs(f64::from(nth)),
            };
            scene.rename("one.wasm", &guest(&format!("{nth}.0.0"), way));
            // A round goes on while the new one is made ready.
            let running = scene.manager.take();
            running.begin_round(0);
            scene.settle();
            if nth % 10 != 9 {
                *cost = f64::from(nth);
            }
            assert_eq!(scene.cost(), *cost, "after swap {nth}");
            drop(running);
        }
        scene.settle();
        scene.manager.notices();
    };
    swaps(&mut scene, 1, 101, &mut cost);
    let before = resident();
    swaps(&mut scene, 101, 1101, &mut cost);
    let grown = resident().saturating_sub(before);
    let status = scene.manager.status();
    println!(
        "{} versions taken over, {} refused; the longest that taking over held up a round: {:.1} µs; memory grew by {} KiB",
        status.swaps,
        scene.policy("one").refused,
        status.longest_swap_micros,
        grown >> 10
    );
    assert_eq!((status.swaps, scene.policy("one").refused), (990, 110));
    assert_eq!(
        scene.policy("one").stats.by_price,
        0,
        "no round was without its policy"
    );
    assert!(grown < 8 << 20, "{} KiB more than before", grown >> 10);
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<usize>()
        .unwrap()
        * 4096
}
