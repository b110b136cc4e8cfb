// A policy in JavaScript: adds a surcharge to the price of spot offerings.
import { capacityTypeNames, capacityTypes, prices } from 'longshore:policy/offerings@0.1.0';

// What the price of a spot offering is multiplied by.
let factor = 1.15;

export const plugin = {
  // Asked once per load.
  describe() {
    return {
      name: 'spot-surcharge',
      version: '0.1.0',
      summary: 'Adds a surcharge to the price of spot offerings.',
      implements: ['scorer'],
      signals: [],
      settingsSchema: JSON.stringify({
        type: 'object',
        properties: { percent: { description: 'Of the price; default 15.', type: 'number', minimum: 0 } },
      }),
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
    const costs = new Float64Array(types.length);
    prices().forEach((micros, i) => {
      costs[i] = (micros / 1e6) * factors[types[i]];
    });
    return costs;
  },
};
