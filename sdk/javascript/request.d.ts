/** When it is asked, in seconds since 1970. The only time there is. */
export function now(): number;
