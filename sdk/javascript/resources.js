// Resources of offerings.
import * as host from 'longshore:policy/resources@0.1.0';
import { doubles } from './columns.js';

export const names = () => host.names();
export const capacity = (name) => doubles(host.capacity(name));
export const allocatable = (name) => doubles(host.allocatable(name));
