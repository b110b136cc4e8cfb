// The example policy in AssemblyScript, by the canonical ABI alone: no generator, no WASI.
// Exports get the names of the contract from transform.mjs.

@external("longshore:policy/offerings@0.1.0", "capacity-type-names")
declare function capacityTypeNames(to: usize): void;
@external("longshore:policy/offerings@0.1.0", "capacity-types")
declare function capacityTypes(to: usize): void;
@external("longshore:policy/chain@0.1.0", "costs")
declare function costs(to: usize): void;

// What the host asks memory of for lists and strings; __alloc gives multiples of sixteen, and nothing is given back.
export function cabi_realloc(old: usize, oldLen: usize, align: usize, len: usize): usize {
  const at = heap.alloc(len);
  if (oldLen > 0) memory.copy(at, old, oldLen);
  return at;
}

// Places of what is answered and of what a function of the host writes: a pointer and a length.
const DESCRIPTION = memory.data(48, 8);
const RESULT = memory.data(16, 8);
const LIST = memory.data(8, 8);

function put(at: usize, text: string): void {
  const bytes = String.UTF8.encode(text);
  store<usize>(at, changetype<usize>(bytes));
  store<usize>(at + 4, bytes.byteLength);
}

export function describe(): usize {
  put(DESCRIPTION, "spot-surcharge");
  put(DESCRIPTION + 8, "0.1.0");
  put(DESCRIPTION + 16, "Adds a surcharge to the price of spot offerings.");
  put(
    DESCRIPTION + 32,
    '{"type": "object", "properties": {"percent": ' +
      '{"description": "Of the price; default 15.", "type": "number", "minimum": 0}}}',
  );
  return DESCRIPTION;
}

let factor: f64 = 1.15;

// The host has held the settings against the schema: one key at most, a number.
export function configure(at: usize, len: usize): usize {
  let percent: f64 = 15.0;
  const settings = String.UTF8.decodeUnsafe(at, len);
  const colon = settings.indexOf(":");
  if (colon >= 0) percent = parseFloat(settings.slice(colon + 1));
  factor = 1.0 + percent / 100.0;
  store<u8>(RESULT, 0);
  return RESULT;
}

export function score(): usize {
  capacityTypeNames(LIST);
  const names = load<usize>(LIST);
  capacityTypes(LIST);
  const types = load<usize>(LIST);
  costs(LIST);
  const base = load<usize>(LIST);
  const count = load<u32>(LIST + 4);
  const answer = heap.alloc(count * 8);
  for (let row: u32 = 0; row < count; row++) {
    const name = names + load<u32>(types + row * 4) * 8;
    const isSpot = load<u32>(name + 4) == 4 && load<u32>(load<usize>(name)) == 0x746f7073;
    const cost = load<f64>(base + row * 8);
    store<f64>(answer + row * 8, isSpot ? cost * factor : cost);
  }
  store<u8>(RESULT, 0);
  store<usize>(RESULT + 4, answer);
  store<u32>(RESULT + 8, count);
  return RESULT;
}
