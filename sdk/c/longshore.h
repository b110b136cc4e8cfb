/* What Longshore policies in C are written with. A policy defines the three names below, the rest is there to call.
 *
 * Columns are functions: row i is the same offering (instance type, zone, capacity type) in each. A column costs a call
 * and a copy, so pull what you need. It belongs to the caller: free(column.ptr). */
#ifndef LONGSHORE_H
#define LONGSHORE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

typedef policy_list_f64_t longshore_f64s;        /* double *ptr; size_t len; */
typedef policy_list_u32_t longshore_u32s;        /* uint32_t *ptr; size_t len; */
typedef policy_list_u8_t longshore_u8s;          /* uint8_t *ptr; size_t len; */
typedef policy_list_string_t longshore_strings;  /* policy_string_t *ptr; size_t len; each without a zero at its end */

/* What a policy says about itself. */
struct longshore_about {
    const char *name;            /* lower case letters, digits and - */
    const char *version;         /* semantic: 0.1.0 */
    const char *summary;         /* one sentence for people */
    const char *settings_schema; /* JSON Schema, or "" for none; the host checks the settings against it */
    const char *const *signals;  /* names of the signals that it reads, NULL at the end; NULL for none */
};

/* To be defined by the policy. */
extern const struct longshore_about longshore_about;

/* To be defined by the policy: takes the settings, a JSON object. Returns NULL, or what is wrong with them. */
const char *longshore_configure(const char *settings);

/* To be defined by the policy: fills in the effective cost of every offering in USD per hour, in the order of the rows: 0
 * or more, INFINITY to exclude an offering; not all may be infinite. `costs` has what the policy before says. Returns
 * NULL, or why there is no answer. */
const char *longshore_score(longshore_f64s costs);

/* A number of the settings, by its key at the top of the object; `otherwise` if it is not set. */
double longshore_number(const char *settings, const char *key, double otherwise);

/* Whether a text of a table is this one. */
static inline bool longshore_is(policy_string_t text, const char *other) {
    return text.len == strlen(other) && memcmp(text.ptr, other, text.len) == 0;
}

/* A text of C as the contract has it; it is not copied. */
static inline policy_string_t longshore_text(const char *text) {
    policy_string_t of = {(uint8_t *)text, strlen(text)};
    return of;
}

/* What each offering costs by the policy before this one, in USD per hour; the list price for the first. Infinite where it
 * is excluded, which it stays whatever is answered. */
static inline longshore_f64s longshore_costs(void) {
    longshore_f64s column;
    longshore_policy_chain_costs(&column);
    return column;
}

/* When it is asked, in seconds since 1970. The only time there is. */
static inline double longshore_now(void) { return longshore_policy_request_now(); }

/* Table: the values that any offering has of a label. */
static inline longshore_strings longshore_label_values(const char *key) {
    policy_string_t name = longshore_text(key);
    longshore_strings table;
    longshore_policy_labels_values(&name, &table);
    return table;
}

/* Index into `longshore_label_values` of the same key. */
static inline longshore_u32s longshore_label_rows(const char *key) {
    policy_string_t name = longshore_text(key);
    longshore_u32s column;
    longshore_policy_labels_rows(&name, &column);
    return column;
}

/* What the machine of each offering has: cores, bytes or devices; 0 for none. */
static inline longshore_f64s longshore_capacity(const char *resource) {
    policy_string_t name = longshore_text(resource);
    longshore_f64s column;
    longshore_policy_resources_capacity(&name, &column);
    return column;
}

/* What pods can have of it: cores, bytes or devices. */
static inline longshore_f64s longshore_allocatable(const char *resource) {
    policy_string_t name = longshore_text(resource);
    longshore_f64s column;
    longshore_policy_resources_allocatable(&name, &column);
    return column;
}

/* For each offering the first that the table of a signal has of type/zone/capacity-type, type/zone, type, zone and region,
 * in the unit of the signal; else `otherwise`, which may be NAN. */
static inline longshore_f64s longshore_joined(const char *signal, double otherwise) {
    policy_string_t name = longshore_text(signal);
    longshore_f64s column;
    longshore_policy_joined_column(&name, otherwise, &column);
    return column;
}

/* Says something: LONGSHORE_POLICY_LOG_LEVEL_DEBUG, _INFO, _WARN (to be looked at some day) or _ERROR (now). */
static inline void longshore_say(longshore_policy_log_level_t level, const char *message) {
    policy_string_t text = longshore_text(message);
    longshore_policy_log_write(level, &text);
}

/* How many offerings there are. */
static inline uint32_t longshore_count(void) { return longshore_policy_offerings_count(); }

/* Table: names of instance types, `m7g.large`. Static. */
static inline longshore_strings longshore_instance_type_names(void) {
    longshore_strings column;
    longshore_policy_offerings_instance_type_names(&column);
    return column;
}

/* Index into `longshore_instance_type_names`. Rows of one type are contiguous. Static. */
static inline longshore_u32s longshore_instance_types(void) {
    longshore_u32s column;
    longshore_policy_offerings_instance_types(&column);
    return column;
}

/* Table: zones, `us-east-1a`. Static. */
static inline longshore_strings longshore_zone_names(void) {
    longshore_strings column;
    longshore_policy_offerings_zone_names(&column);
    return column;
}

/* Index into `longshore_zone_names`. Static. */
static inline longshore_u32s longshore_zones(void) {
    longshore_u32s column;
    longshore_policy_offerings_zones(&column);
    return column;
}

/* Table: `on-demand`, `spot`, `reserved`; more may come. Static. */
static inline longshore_strings longshore_capacity_type_names(void) {
    longshore_strings column;
    longshore_policy_offerings_capacity_type_names(&column);
    return column;
}

/* Index into `longshore_capacity_type_names`. Static. */
static inline longshore_u32s longshore_capacity_types(void) {
    longshore_u32s column;
    longshore_policy_offerings_capacity_types(&column);
    return column;
}

/* Table: `amd64`, `arm64`. Static. */
static inline longshore_strings longshore_architecture_names(void) {
    longshore_strings column;
    longshore_policy_offerings_architecture_names(&column);
    return column;
}

/* Index into `longshore_architecture_names`. Static. */
static inline longshore_u32s longshore_architectures(void) {
    longshore_u32s column;
    longshore_policy_offerings_architectures(&column);
    return column;
}

/* Table: reservations by id; the empty string stands for none. Static. */
static inline longshore_strings longshore_reservation_names(void) {
    longshore_strings column;
    longshore_policy_offerings_reservation_names(&column);
    return column;
}

/* Index into `longshore_reservation_names`. Static. */
static inline longshore_u32s longshore_reservations(void) {
    longshore_u32s column;
    longshore_policy_offerings_reservations(&column);
    return column;
}

/* What the machine has, in thousandths of a core. Static. */
static inline longshore_u32s longshore_cpu_millicores(void) {
    longshore_u32s column;
    longshore_policy_offerings_cpu_millicores(&column);
    return column;
}

/* What the machine has, in MiB. Static. */
static inline longshore_u32s longshore_memory_mib(void) {
    longshore_u32s column;
    longshore_policy_offerings_memory_mib(&column);
    return column;
}

/* List price in USD per hour. Start from `longshore_costs`, not from this. */
static inline longshore_f64s longshore_prices(void) {
    longshore_f64s column;
    longshore_policy_offerings_prices(&column);
    return column;
}

/* 1 if the cloud says that it can be had now, else 0. */
static inline longshore_u8s longshore_available(void) {
    longshore_u8s column;
    longshore_policy_offerings_available(&column);
    return column;
}

/* For offerings of a reservation, how many instances are left in it; otherwise 0. */
static inline longshore_u32s longshore_reservation_counts(void) {
    longshore_u32s column;
    longshore_policy_offerings_reservation_counts(&column);
    return column;
}

#endif
