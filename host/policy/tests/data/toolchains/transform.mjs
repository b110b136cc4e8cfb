// Names the exports as the contract does: AssemblyScript's own syntax has no text for them.
import { Transform } from 'assemblyscript/transform';

const NAMES = {
  describe: 'longshore:policy/plugin@0.1.0#describe',
  configure: 'longshore:policy/plugin@0.1.0#configure',
  score: 'longshore:policy/scorer@0.1.0#score',
};

export default class extends Transform {
  afterCompile(module) {
    for (const [name, exported] of Object.entries(NAMES)) {
      const internal = `policy/${name}`;
      module.removeExport(name);
      module.addFunctionExport(internal, exported);
    }
  }
}
