//! The example policy in Zig, by the canonical ABI alone: no generator, no WASI.
const std = @import("std");

const String = extern struct { at: [*]const u8, len: usize };
fn List(comptime T: type) type {
    return extern struct { at: [*]const T, len: usize };
}

extern "longshore:policy/offerings@0.1.0" fn @"capacity-type-names"(to: *List(String)) void;
extern "longshore:policy/offerings@0.1.0" fn @"capacity-types"(to: *List(u32)) void;
extern "longshore:policy/chain@0.1.0" fn costs(to: *List(f64)) void;

const memory = std.heap.wasm_allocator;

/// What the host asks memory of for lists and strings; alignment is eight at most.
export fn cabi_realloc(old: ?[*]align(8) u8, old_len: usize, _: usize, len: usize) ?[*]u8 {
    if (len == 0) return @ptrFromInt(8);
    const new = memory.alignedAlloc(u8, .@"8", len) catch unreachable;
    if (old) |from| @memcpy(new[0..old_len], from[0..old_len]);
    return new.ptr;
}

const Description = extern struct {
    name: String,
    version: String,
    summary: String,
    signals: List(u8) = .{ .at = "", .len = 0 },
    schema: String,
    annotations: List(u8) = .{ .at = "", .len = 0 },
};

fn text(comptime of: []const u8) String {
    return .{ .at = of.ptr, .len = of.len };
}

const description = Description{
    .name = text("spot-surcharge"),
    .version = text("0.1.0"),
    .summary = text("Adds a surcharge to the price of spot offerings."),
    .schema = text("{\"type\": \"object\", \"properties\": {\"percent\": " ++
        "{\"description\": \"Of the price; default 15.\", \"type\": \"number\", \"minimum\": 0}}}"),
};

fn describe() callconv(.c) *const Description {
    return &description;
}

var factor: f64 = 1.15;

/// `result<_, string>` and `result<list<f64>, string>`.
const Result = extern struct { is_error: u32 = 0, list: List(f64) = undefined };
var result = Result{};

/// The host has held the settings against the schema: one key at most, a number.
fn configure(at: [*]const u8, len: usize) callconv(.c) *const Result {
    const settings = at[0..len];
    var percent: f64 = 15.0;
    if (std.mem.indexOfScalar(u8, settings, ':')) |colon| {
        const number = std.mem.trim(u8, settings[colon + 1 ..], " }");
        percent = std.fmt.parseFloat(f64, number) catch unreachable;
    }
    factor = 1.0 + percent / 100.0;
    result = .{};
    return &result;
}

fn score() callconv(.c) *const Result {
    var names: List(String) = undefined;
    var types: List(u32) = undefined;
    var base: List(f64) = undefined;
    @"capacity-type-names"(&names);
    @"capacity-types"(&types);
    costs(&base);
    const answer = memory.alloc(f64, base.len) catch unreachable;
    for (answer, base.at[0..base.len], types.at[0..types.len]) |*to, cost, kind| {
        const name = names.at[kind];
        to.* = if (std.mem.eql(u8, name.at[0..name.len], "spot")) cost * factor else cost;
    }
    result = .{ .list = .{ .at = answer.ptr, .len = answer.len } };
    return &result;
}

comptime {
    @export(&describe, .{ .name = "longshore:policy/plugin@0.1.0#describe" });
    @export(&configure, .{ .name = "longshore:policy/plugin@0.1.0#configure" });
    @export(&score, .{ .name = "longshore:policy/scorer@0.1.0#score" });
}
