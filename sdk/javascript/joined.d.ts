/** For each offering the first that the table has of type/zone/capacity-type, type/zone, type, zone and region, in the unit
 *  of the signal; else `otherwise`, which is NaN if left out. */
export function column(signal: string, otherwise?: number): Float64Array;
