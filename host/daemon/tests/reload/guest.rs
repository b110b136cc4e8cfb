//! Policies of a few instructions: every offering costs the same, or something goes wrong. They
//! compile in a few milliseconds, so that a test can swap a thousand of them.

/// What a guest does.
#[allow(dead_code, reason = "each program of tests uses some of them")]
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Way {
    /// Every offering costs this.
    Costs(f64),
    /// On-demand and spot take turns in the catalogue's order: even rows cost the first, odd rows
    /// the second.
    Alternates(f64, f64),
    /// One cost too few.
    Short,
    /// Traps when asked for its identity.
    TrapsAtDescribe,
    /// Says no to any settings.
    RefusesSettings,
    /// Traps when asked for costs.
    Traps,
    /// Loops when asked for costs.
    Loops,
    /// Counts so far before it answers.
    Slow(i32),
    WantsClock,
    /// Its costs are beyond its memory.
    WildList,
    /// More costs than a memory has bytes.
    LongList,
    /// Its costs do not begin where a number may.
    Unaligned,
    /// Its answer is neither costs nor an error.
    WrongCase,
    /// Wants all of the memory that an address reaches.
    Grows,
    /// The same for a table.
    TableGrows,
    /// Traps before it is asked anything.
    StartTraps,
    /// Loops before it is asked anything.
    StartLoops,
}

/// Ways to be broken that only a policy that is asked shows, and those that show before.
pub const BROKEN: [(Way, &str); 6] = [
    (Way::Costs(f64::NAN), "the cost of offering 0 is NaN"),
    (Way::Short, "costs for"),
    (
        Way::TrapsAtDescribe,
        "it does not start: describe: wasm trap",
    ),
    (Way::RefusesSettings, "settings: not these"),
    (
        Way::Traps,
        "score: wasm trap: wasm `unreachable` instruction executed",
    ),
    (
        Way::WantsClock,
        "it imports what a policy cannot have: `wasi:clocks/monotonic-clock@0.2.6`",
    ),
];

/// The component. `version` is what it calls itself, so that two of them differ though they do the
/// same.
pub fn guest(version: &str, way: Way) -> Vec<u8> {
    guest_that_wants(version, way, &Wants::default())
}

/// What a component exports beside `scorer`, and the signals that it declares.
#[derive(Default)]
pub struct Wants<'a> {
    pub exports: &'a [&'a str],
    pub signals: &'a [&'a str],
}

/// As [`guest`], and wants more. An export outside of the contract has no package.
pub fn guest_that_wants(version: &str, way: Way, wants: &Wants<'_>) -> Vec<u8> {
    wat::parse_str(text(version, way, wants)).unwrap()
}

const DESCRIBE: usize = 0;
const CONFIGURE: usize = 64;
const SCORE: usize = 80;
const SIGNALS: usize = 96;
/// A name, whether it is required, and how old it may be.
const SIGNAL_BYTES: usize = 24;
const TEXTS: usize = 256;

fn text(version: &str, way: Way, wants: &Wants<'_>) -> String {
    let clock = "(import \"wasi:clocks/monotonic-clock@0.2.6\" (instance (export \"now\" (func \
        (result u64)))))";
    let clock = if way == Way::WantsClock { clock } else { "" };
    let describe = if way == Way::TrapsAtDescribe {
        "unreachable"
    } else {
        "i32.const 0"
    };
    let (first, second) = match way {
        Way::Costs(cost) => (cost, cost),
        Way::Alternates(even, odd) => (even, odd),
        _ => (1.0, 1.0),
    };
    let counts = |far: i32| {
        format!(
            "(local.set $row (i32.const {far}))
            (loop $count (br_if $count (local.tee $row (i32.sub (local.get $row) (i32.const 1)))))"
        )
    };
    let before = match way {
        Way::Traps => "unreachable".to_owned(),
        Way::Loops => "(loop $for-ever br $for-ever)".to_owned(),
        Way::Slow(far) => counts(far),
        Way::Grows => "(drop (memory.grow (i32.const 65000)))".to_owned(),
        Way::TableGrows => "(drop (table.grow (ref.null func) (i32.const 100000000)))".to_owned(),
        _ => String::new(),
    };
    let store =
        |at: usize, value: &str| format!("(i32.store offset={at} (i32.const {SCORE}) {value})");
    let after = match way {
        Way::WildList => store(4, "(i32.const -16)"),
        Way::LongList => store(8, "(i32.const 0x1fffffff)"),
        Way::Unaligned => store(4, "(i32.add (local.get $at) (i32.const 1))"),
        Way::WrongCase => store(0, "(i32.const 7)"),
        _ => String::new(),
    };
    let table = match way {
        Way::TableGrows => "(table 1 funcref)",
        _ => "",
    };
    let start = match way {
        Way::StartTraps => "(func $begin unreachable) (start $begin)",
        Way::StartLoops => "(func $begin (loop $for-ever br $for-ever)) (start $begin)",
        _ => "",
    };
    let less = if way == Way::Short {
        "(local.set $rows (i32.sub (local.get $rows) (i32.const 1)))"
    } else {
        ""
    };
    let (first, second) = (first.to_bits() as i64, second.to_bits() as i64);
    let exports: String = wants.exports.iter().map(|name| exported(name)).collect();
    let data: String = data(version, way, wants)
        .iter()
        .map(|byte| format!("\\{byte:02x}"))
        .collect();
    format!(
        r#"(component
        {clock}
        (import "longshore:policy/offerings@0.1.0" (instance $offerings (export "count" (func (result u32)))))
        (core func $count (canon lower (func $offerings "count")))
        (core module $m
            (import "host" "count" (func $count (result i32)))
            (memory (export "memory") 1)
            {table}
            {start}
            (global $top (mut i32) (i32.const 4096))
            (data (i32.const 0) "{data}")
            (func $take (export "realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
                (global.set $top (i32.add (local.get $at) (local.get 3)))
                (block $fits (loop $more
                    (br_if $fits (i32.le_u (global.get $top) (i32.mul (memory.size) (i32.const 65536))))
                    (drop (memory.grow (i32.const 1)))
                    (br $more)))
                (local.get $at))
            (func (export "describe") (result i32) {describe})
            (func (export "configure") (param i32 i32) (result i32) i32.const {CONFIGURE})
            (func (export "score") (result i32)
                (local $rows i32) (local $at i32) (local $row i32)
                {before}
                (local.set $rows (call $count))
                {less}
                (local.set $at (call $take (i32.const 0) (i32.const 0) (i32.const 8)
                    (i32.mul (local.get $rows) (i32.const 8))))
                (i32.store (i32.const {SCORE}) (i32.const 0))
                (i32.store offset=4 (i32.const {SCORE}) (local.get $at))
                (i32.store offset=8 (i32.const {SCORE}) (local.get $rows))
                (block $done (loop $next
                    (br_if $done (i32.ge_u (local.get $row) (local.get $rows)))
                    (i64.store
                        (i32.add (local.get $at) (i32.mul (local.get $row) (i32.const 8)))
                        (select (i64.const {second}) (i64.const {first}) (i32.and (local.get $row) (i32.const 1))))
                    (local.set $row (i32.add (local.get $row) (i32.const 1)))
                    (br $next)))
                {after}
                (i32.const {SCORE})))
        (core instance $i (instantiate $m (with "host" (instance (export "count" (func $count))))))
        (alias core export $i "memory" (core memory $memory))
        (alias core export $i "realloc" (core func $realloc))
        (type $use (record (field "name" string) (field "required" bool) (field "max-age" f64)))
        (type $about (record (field "name" string) (field "version" string) (field "summary" string)
            (field "signals" (list $use)) (field "settings-schema" string)
            (field "annotations" (list (tuple string string)))))
        (type $describe (func (result $about)))
        (type $configure (func (param "settings" string) (result (result (error string)))))
        (type $score (func (result (result (list f64) (error string)))))
        (func $describe (type $describe) (canon lift (core func $i "describe") (memory $memory)))
        (func $configure (type $configure)
            (canon lift (core func $i "configure") (memory $memory) (realloc $realloc)))
        (func $score (type $score) (canon lift (core func $i "score") (memory $memory)))
        (component $plugin
            (type $use-record (record (field "name" string) (field "required" bool) (field "max-age" f64)))
            (import "use" (type $use (eq $use-record)))
            (type $record (record (field "name" string) (field "version" string) (field "summary" string)
                (field "signals" (list $use)) (field "settings-schema" string)
                (field "annotations" (list (tuple string string)))))
            (import "about" (type $in (eq $record)))
            (import "describe" (func $describe (result $in)))
            (import "configure" (func $configure (param "settings" string) (result (result (error string)))))
            (export $use-out "signal-use" (type $use))
            (type $record-out (record (field "name" string) (field "version" string) (field "summary" string)
                (field "signals" (list $use-out)) (field "settings-schema" string)
                (field "annotations" (list (tuple string string)))))
            (export $out "description" (type $record-out))
            (export "describe" (func $describe) (func (result $out)))
            (export "configure" (func $configure)))
        (instance $plugin (instantiate $plugin (with "use" (type $use)) (with "about" (type $about))
            (with "describe" (func $describe)) (with "configure" (func $configure))))
        (instance $scorer (export "score" (func $score)))
        (export "longshore:policy/plugin@0.1.0" (instance $plugin))
        (export "longshore:policy/scorer@0.1.0" (instance $scorer))
        {exports})"#
    )
}

/// An export whose functions answer as if they were asked for costs: of another type than the
/// contract's, which shows once they are granted.
fn exported(name: &str) -> String {
    match name {
        "bootstrap" => r#"(instance $boot (export "overheads" (func $score)) (export "user-data" (func $score)))
            (export "longshore:bootstrap/bootstrap@0.1.0" (instance $boot))"#
            .to_owned(),
        other => format!("(export \"{other}\" (func $score))\n"),
    }
}

/// The guest's memory at the start: the answers of `describe` and `configure`, and their texts.
fn data(version: &str, way: Way, wants: &Wants<'_>) -> Vec<u8> {
    let mut data = vec![0; 1024];
    let mut end = TEXTS;
    let mut put = |data: &mut Vec<u8>, at: usize, text: &str| {
        data[end..end + text.len()].copy_from_slice(text.as_bytes());
        data[at..at + 4].copy_from_slice(&(end as u32).to_le_bytes());
        data[at + 4..at + 8].copy_from_slice(&(text.len() as u32).to_le_bytes());
        end += text.len();
    };
    let schema = r#"{"type": "object", "properties": {"x": {"type": "number"}}}"#;
    for (nth, text) in [
        (0, "flat"),
        (1, version),
        (2, "Costs the same."),
        (4, schema),
    ] {
        put(&mut data, DESCRIBE + 8 * nth, text);
    }
    data[DESCRIBE + 24] = SIGNALS as u8;
    data[DESCRIBE + 28] = wants.signals.len() as u8;
    for (nth, name) in wants.signals.iter().enumerate() {
        put(&mut data, SIGNALS + SIGNAL_BYTES * nth, name);
    }
    if way == Way::RefusesSettings {
        data[CONFIGURE] = 1;
        put(&mut data, CONFIGURE + 4, "not these");
    }
    data
}
