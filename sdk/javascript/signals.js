// Named tables of numbers that the host fetches, stamped with their time.
import * as host from 'longshore:policy/signals@0.1.0';

export function get(name) {
  const time = host.time(name);
  if (Number.isNaN(time)) {
    return undefined;
  }
  const values = host.values(name);
  return { time, values: new Map(host.keys(name).map((key, at) => [key, values[at]])) };
}
