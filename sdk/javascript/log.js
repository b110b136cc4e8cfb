// A voice: messages become fields of the round's report.
import * as host from 'longshore:policy/log@0.1.0';

export const debug = (message) => host.write('debug', String(message));
export const info = (message) => host.write('info', String(message));
export const warn = (message) => host.write('warn', String(message));
export const error = (message) => host.write('error', String(message));
