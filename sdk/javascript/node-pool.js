// The NodePool that nodes are wanted for.
import * as host from 'longshore:policy/node-pool@0.1.0';

export const name = () => host.name();
export const labels = () => Object.fromEntries(host.labels());
export const annotations = () => Object.fromEntries(host.annotations());
export const weight = () => host.weight();
