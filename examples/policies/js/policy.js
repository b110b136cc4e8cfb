// A policy in JavaScript: adds a surcharge to the price of spot offerings.
import { costs } from 'longshore:policy/chain@0.1.0';
import { capacityTypeNames, capacityTypes } from 'longshore:policy/offerings@0.1.0';

// What the price of a spot offering is multiplied by.
let factor = 1.15;

export const plugin = {
  // Asked once per load.
  describe() {
    return {
      name: 'spot-surcharge',
      version: '0.1.0',
      summary: 'Adds a surcharge to the price of spot offerings.',
      signals: [],
      settingsSchema: JSON.stringify({
        type: 'object',
        properties: { percent: { description: 'Of the price; default 15.', type: 'number', minimum: 0 } },
      }),
      annotations: [],
    };
  },

  // Takes the settings, a JSON object. The host has held them against the schema.
  configure(settings) {
    const { percent = 15 } = JSON.parse(settings);
    factor = 1 + percent / 100;
  },
};

export const scorer = {
  // Answers the effective cost of every offering, in USD per hour.
  score() {
    const factors = capacityTypeNames().map((name) => (name === 'spot' ? factor : 1));
    const types = capacityTypes();
    const answer = new Float64Array(types.length);
    costs().forEach((cost, i) => {
      answer[i] = cost * factors[types[i]];
    });
    return answer;
  },
};
