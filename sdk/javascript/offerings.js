// The catalogue as columns: row i is the same offering in each. offerings.d.ts describes every function.
import * as host from 'longshore:policy/offerings@0.1.0';
import { doubles, indices } from './columns.js';

export const edition = () => host.edition();
export const count = () => host.count();
export const instanceTypeNames = () => host.instanceTypeNames();
export const instanceTypes = () => indices(host.instanceTypes());
export const zoneNames = () => host.zoneNames();
export const zones = () => indices(host.zones());
export const capacityTypeNames = () => host.capacityTypeNames();
export const capacityTypes = () => indices(host.capacityTypes());
export const architectureNames = () => host.architectureNames();
export const architectures = () => indices(host.architectures());
export const reservationNames = () => host.reservationNames();
export const reservations = () => indices(host.reservations());
export const cpuMillicores = () => indices(host.cpuMillicores());
export const memoryMib = () => indices(host.memoryMib());
export const prices = () => doubles(host.prices());
export const available = () => Uint8Array.from(host.available());
export const reservationCounts = () => indices(host.reservationCounts());
