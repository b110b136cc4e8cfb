/** What each offering costs by the policy before this one, in USD per hour; the list price for the first. Infinite where
 *  it is excluded, which it stays whatever is answered. */
export function costs(): Float64Array;
