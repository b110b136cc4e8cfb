// prepaid: so many cores on demand are paid for already.
import { define, Pool } from 'longshore/index.js';
import { costs } from 'longshore/chain.js';
import { capacityTypeNames, capacityTypes, cpuMillicores } from 'longshore/offerings.js';

class Prepaid {
  static about = {
    name: 'prepaid',
    version: '0.1.0',
    summary: 'Cores on demand that are paid for cost nothing more.',
    settingsSchema: {
      type: 'object',
      properties: { cores: { description: 'Left; default 8.', type: 'number', minimum: 0 } },
    },
  };

  constructor({ cores = 8 }) {
    this.cores = cores;
  }

  score() {
    return costs();
  }

  pools() {
    const pool = new Pool('cores', this.cores);
    const [names, types] = [capacityTypeNames(), capacityTypes()];
    cpuMillicores().forEach((millicores, row) => {
      if (names[types[row]] === 'on-demand') pool.draw(row, millicores / 1000, 0);
    });
    return [pool];
  }
}

const policy = define(Prepaid);
export const plugin = policy.plugin;
export const scorer = policy.scorer;
export const commitments = policy.commitments;
