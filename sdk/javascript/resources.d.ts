/** All resources that any offering has, sorted: `cpu`, `memory`, `nvidia.com/gpu`. */
export function names(): string[];
/** What the machine of each offering has: cores, bytes or devices; 0 for none. */
export function capacity(name: string): Float64Array;
/** What pods can have of it: cores, bytes or devices. */
export function allocatable(name: string): Float64Array;
