// What the policies before this one say of offerings.
import * as host from 'longshore:policy/chain@0.1.0';
import { doubles } from './columns.js';

export const costs = () => doubles(host.costs());
