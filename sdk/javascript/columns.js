// The two engines give columns as arrays or as typed arrays, and take different things as an answer. Here both are alike.
export const doubles = (column) => Float64Array.from(column);
export const indices = (column) => Uint32Array.from(column);
