/** A column of numbers as a Float64Array, whatever the engine gave. */
export function doubles(column: Iterable<number>): Float64Array;
/** A column of indices as a Uint32Array, whatever the engine gave. */
export function indices(column: Iterable<number>): Uint32Array;
