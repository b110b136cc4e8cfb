// Labels of offerings.
import * as host from 'longshore:policy/labels@0.1.0';
import { indices } from './columns.js';

export const keys = () => host.keys();
export const values = (key) => host.values(key);
export const rows = (key) => indices(host.rows(key));
export const column = (key) => {
  const table = host.values(key);
  return Array.from(host.rows(key), (row) => table[row]);
};
