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

/** A class of a policy. */
export interface PolicyClass {
  about: About;
  /** Takes the settings of the operator's file. What is thrown refuses them. */
  new (settings: any): Scorer;
}

/** The exports of a component: `export const plugin = policy.plugin; export const scorer = policy.scorer;`. */
export function define(policy: PolicyClass): { plugin: object; scorer: object };
