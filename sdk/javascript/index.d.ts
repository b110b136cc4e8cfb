/** A signal that a policy reads. */
export interface SignalUse {
  /** Its name, as `[signals.NAME]` of the operator's file has it. */
  name: string;
  /** Whether the policy is of no use without it; default false. */
  required?: boolean;
  /** Seconds; older numbers are too old for it. 0, the default, for any age. */
  maxAge?: number;
}

/** What a policy says about itself. */
export interface About {
  /** Lower case letters, digits and `-`. */
  name: string;
  /** Semantic version: `0.1.0`. */
  version: string;
  /** One sentence for people. */
  summary: string;
  /** The signals that it reads. It sees no others. */
  signals?: SignalUse[];
  /** JSON Schema of its settings; the host checks them against it. */
  settingsSchema?: object;
}

/** Says what offerings cost. */
export interface Scorer {
  /** The effective cost of every offering in USD per hour, in the order of the rows: 0 or more, Infinity to exclude an
   *  offering; not all may be infinite. What is thrown is the policy's error. */
  score(): Float64Array | number[];
}

/** A prepaid, finite and shared amount (a reservation, a savings plan), and the offerings that draw on it. */
export class Pool {
  /** `name` is what reports call it, unique in an answer. `remaining` is what is left, in the pool's own unit (instances,
   *  vCPUs, USD per hour): finite, 0 or more. */
  constructor(name: string, remaining: number);
  name: string;
  remaining: number;
  /** Rows of offerings, each once. Of several pools for an offering the first of the answer that has enough counts. */
  offerings: number[];
  /** What one node of each takes, in the pool's unit: finite, above 0. A node draws wholly or not at all. */
  amounts: number[];
  /** The effective cost of a node that draws, in USD per hour: finite, 0 or more. */
  costs: number[];
  /** Adds an offering by its row: a node takes `amount` in the pool's unit and costs `cost` USD per hour. */
  draw(offering: number, amount: number, cost: number): void;
}

/** Says what offerings cost, and what is prepaid. */
export interface Commitments extends Scorer {
  /** The pools of this catalogue; asked right after `score()`. What is thrown is the policy's error. */
  pools(): Iterable<Pool>;
}

/** A class of a policy. */
export interface PolicyClass<Policy extends Scorer = Scorer> {
  about: About;
  /** Takes the settings of the operator's file. What is thrown refuses them. */
  new (settings: any): Policy;
}

/** The exports of a component: `export const plugin = policy.plugin; export const scorer = policy.scorer;`. Where
 *  `wit/world.wit` exports `longshore:policy/commitments@0.1.0`, also `export const commitments = policy.commitments;`. */
export function define(policy: PolicyClass<Commitments>): { plugin: object; scorer: object; commitments: object };
export function define(policy: PolicyClass): { plugin: object; scorer: object };
