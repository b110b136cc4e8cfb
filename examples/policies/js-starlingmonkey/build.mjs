// Makes a component of a policy in JavaScript with StarlingMonkey inside, and nothing of WASI:
// node build.mjs POLICY.js WIT-FOLDER WORLD OUT.wasm
import { writeFile } from 'node:fs/promises';
import { componentize } from '@bytecodealliance/componentize-js';

const [sourcePath, witPath, worldName, out] = process.argv.slice(2);
const { component } = await componentize({
  sourcePath,
  witPath,
  worldName,
  disableFeatures: ['stdio', 'random', 'clocks', 'http', 'fetch-event'],
});
await writeFile(out, component);
