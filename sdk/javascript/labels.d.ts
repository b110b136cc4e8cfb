/** All keys that any offering has, sorted. */
export function keys(): string[];
/** Table: the values of a label; the empty string for none. */
export function values(key: string): string[];
/** Index into `values(key)`, for each offering. */
export function rows(key: string): Uint32Array;
/** The value that each offering has; the empty string for none. */
export function column(key: string): string[];
