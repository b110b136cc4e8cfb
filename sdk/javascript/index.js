// Makes the exports of a component of a class. index.d.ts describes it.

export function define(Policy) {
  let running;
  const plugin = {
    describe() {
      const { name, version, summary, signals = [], settingsSchema } = Policy.about;
      return {
        name,
        version,
        summary,
        signals: signals.map((of) => ({ required: false, maxAge: 0, ...of })),
        settingsSchema: settingsSchema ? JSON.stringify(settingsSchema) : '',
        annotations: [],
      };
    },
    configure(settings) {
      running = spoken(() => new Policy(JSON.parse(settings)));
    },
  };
  const scorer = {
    score: () => spoken(() => numbers(running.score(), (row) => `the cost of offering ${row}`)),
  };
  const commitments = {
    pools: () => spoken(() => Array.from(running.pools(), raw)),
  };
  return { plugin, scorer, commitments };
}

export class Pool {
  offerings = [];
  amounts = [];
  costs = [];

  constructor(name, remaining) {
    this.name = name;
    this.remaining = remaining;
  }

  draw(offering, amount, cost) {
    this.offerings.push(offering);
    this.amounts.push(amount);
    this.costs.push(cost);
  }
}

function raw({ name, remaining, offerings, amounts, costs }) {
  if (typeof remaining !== 'number') {
    throw new Error(`what remains of pool ${name} is ${String(remaining)}, which is not a number`);
  }
  return {
    name,
    remaining,
    offerings: Uint32Array.from(offerings),
    amounts: numbers(amounts, (at) => `amount ${at} of pool ${name}`),
    costs: numbers(costs, (at) => `cost ${at} of pool ${name}`),
  };
}

// An engine makes numbers of what is none, or traps without a word.
function numbers(list, named) {
  const isList = Array.isArray(list) || ArrayBuffer.isView(list);
  if (!isList || typeof list.length !== 'number') {
    throw new Error('score() must return an array or a Float64Array');
  }
  const answer = new Float64Array(list.length);
  for (let row = 0; row < list.length; row++) {
    if (typeof list[row] !== 'number') {
      throw new Error(`${named(row)} is ${String(list[row])}, which is not a number`);
    }
    answer[row] = list[row];
  }
  return answer;
}

// What is thrown must be a text: StarlingMonkey traps on anything else.
function spoken(ask) {
  try {
    return ask();
  } catch (error) {
    throw error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  }
}
