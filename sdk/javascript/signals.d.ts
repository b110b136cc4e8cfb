/** A table of numbers. */
export interface Signal {
  /** When it was fetched, in seconds since 1970; 0 for a file that is given to `plan`. */
  time: number;
  /** Its numbers by key, in the unit of the signal. */
  values: Map<string, number>;
}

/** The table of that name; undefined if the host has none, or the policy may not read it. */
export function get(name: string): Signal | undefined;
