/** Its name. A policy that asks is asked once for each NodePool. */
export function name(): string;
/** Labels of its nodes, by key. */
export function labels(): Record<string, string>;
/** Annotations of its nodes, by key. */
export function annotations(): Record<string, string>;
/** Its weight; 0 without one. */
export function weight(): number;
