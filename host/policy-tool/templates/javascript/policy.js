// {{name}}: adds a surcharge to the cost of spot offerings.
import { define } from 'longshore/index.js';
import { costs } from 'longshore/chain.js';
import { capacityTypeNames, capacityTypes } from 'longshore/offerings.js';

class SpotSurcharge {
  static about = {
    name: '{{name}}',
    version: '0.1.0',
    summary: 'Adds a surcharge to the cost of spot offerings.',
    settingsSchema: {
      type: 'object',
      properties: { percent: { description: 'Of the cost; default 15.', type: 'number', minimum: 0 } },
    },
  };

  constructor({ percent = 15 }) {
    // What the cost of a spot offering is multiplied by.
    this.factor = 1 + percent / 100;
  }

  score() {
    const factors = capacityTypeNames().map((name) => (name === 'spot' ? this.factor : 1));
    const types = capacityTypes();
    return costs().map((cost, row) => cost * factors[types[row]]);
  }
}

const policy = define(SpotSurcharge);
export const plugin = policy.plugin;
export const scorer = policy.scorer;
