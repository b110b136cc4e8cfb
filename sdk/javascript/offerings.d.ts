/** The catalogue as columns: row i is the same offering (instance type, zone, capacity type) in each.
 *  A column costs a call and a copy, so pull what you need. */

/** Sixteen digits made of all static columns: keep what you derive from them as long as it is the same. */
export function edition(): string;
/** How many offerings there are. */
export function count(): number;
/** Table: names of instance types, `m7g.large`. Static. */
export function instanceTypeNames(): string[];
/** Index into `instanceTypeNames()`. Rows of one type are contiguous. Static. */
export function instanceTypes(): Uint32Array;
/** Table: zones, `us-east-1a`. Static. */
export function zoneNames(): string[];
/** Index into `zoneNames()`. Static. */
export function zones(): Uint32Array;
/** Table: `on-demand`, `spot`, `reserved`; more may come. Static. */
export function capacityTypeNames(): string[];
/** Index into `capacityTypeNames()`. Static. */
export function capacityTypes(): Uint32Array;
/** Table: `amd64`, `arm64`. Static. */
export function architectureNames(): string[];
/** Index into `architectureNames()`. Static. */
export function architectures(): Uint32Array;
/** Table: reservations by id; the empty string stands for none. Static. */
export function reservationNames(): string[];
/** Index into `reservationNames()`. Static. */
export function reservations(): Uint32Array;
/** What the machine has, in thousandths of a core. Static. */
export function cpuMillicores(): Uint32Array;
/** What the machine has, in MiB. Static. */
export function memoryMib(): Uint32Array;
/** List price in USD per hour. Start from `chain.costs()`, not from this. */
export function prices(): Float64Array;
/** 1 if the cloud says that it can be had now, else 0. */
export function available(): Uint8Array;
/** For offerings of a reservation, how many instances are left in it; otherwise 0. */
export function reservationCounts(): Uint32Array;
