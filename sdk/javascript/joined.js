// Signals as columns of offerings.
import * as host from 'longshore:policy/joined@0.1.0';
import { doubles } from './columns.js';

export const column = (signal, otherwise = NaN) => doubles(host.column(signal, otherwise));
