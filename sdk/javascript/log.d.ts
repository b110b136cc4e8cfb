/** Says what only authors of policies want to know. */
export function debug(message: string): void;
/** Says something of interest. */
export function info(message: string): void;
/** Says what operators should look at some day. */
export function warn(message: string): void;
/** Says what operators should look at now. */
export function error(message: string): void;
