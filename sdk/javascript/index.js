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
    score: () => spoken(() => numbers(running.score())),
  };
  return { plugin, scorer };
}

// An engine makes numbers of what is none, or traps without a word.
function numbers(costs) {
  const isList = Array.isArray(costs) || ArrayBuffer.isView(costs);
  if (!isList || typeof costs.length !== 'number') {
    throw new Error('score() must return an array or a Float64Array');
  }
  const answer = new Float64Array(costs.length);
  for (let row = 0; row < costs.length; row++) {
    if (typeof costs[row] !== 'number') {
      throw new Error(`the cost of offering ${row} is ${String(costs[row])}, which is not a number`);
    }
    answer[row] = costs[row];
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
