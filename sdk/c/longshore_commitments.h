/* What a policy in C is written with that knows what is prepaid: amounts that are finite and shared, as reservations and
 * savings plans. Include it once, in policy.c, after longshore.h; wit/world.wit exports
 * longshore:policy/commitments@0.1.0 then. */
#ifndef LONGSHORE_COMMITMENTS_H
#define LONGSHORE_COMMITMENTS_H

#include "longshore.h"

/* A prepaid amount and the offerings that draw on it. */
struct longshore_pool {
    const char *name;          /* what reports call it; unique in an answer; it is copied once all is said */
    double remaining;          /* what is left, in the pool's own unit (instances, vCPUs, USD per hour): finite, 0 or more */
    longshore_u32s offerings;  /* rows, each once; of several pools for one the first of the answer that has enough counts */
    longshore_f64s amounts;    /* what one node of each takes, in the pool's unit: finite, above 0; wholly or not at all */
    longshore_f64s costs;      /* of a node that draws, in USD per hour: finite, 0 or more */
    size_t room;               /* of the three lists */
    struct longshore_pool *next;
};

/* The pools of an answer, in their order. */
struct longshore_pools {
    struct longshore_pool *first, *last;
    size_t len;
};

/* To be defined by the policy: adds the pools of this catalogue. Asked right after `longshore_score`. Returns NULL, or why
 * there is no answer. */
const char *longshore_pools(struct longshore_pools *pools);

/* Adds a pool; `remaining` is in its own unit. */
static inline struct longshore_pool *longshore_pool(struct longshore_pools *pools, const char *name, double remaining) {
    struct longshore_pool *pool = calloc(1, sizeof(*pool));
    pool->name = name;
    pool->remaining = remaining;
    *(pools->last ? &pools->last->next : &pools->first) = pool;
    pools->last = pool;
    pools->len++;
    return pool;
}

/* Adds an offering by its row: a node takes `amount` in the pool's unit and costs `cost` USD per hour. */
static inline void longshore_draw(struct longshore_pool *pool, uint32_t offering, double amount, double cost) {
    size_t at = pool->offerings.len;
    if (at == pool->room) {
        pool->room = at ? 2 * at : 64;
        pool->offerings.ptr = realloc(pool->offerings.ptr, pool->room * sizeof(uint32_t));
        pool->amounts.ptr = realloc(pool->amounts.ptr, pool->room * sizeof(double));
        pool->costs.ptr = realloc(pool->costs.ptr, pool->room * sizeof(double));
    }
    pool->offerings.ptr[at] = offering;
    pool->amounts.ptr[at] = amount;
    pool->costs.ptr[at] = cost;
    pool->offerings.len = pool->amounts.len = pool->costs.len = at + 1;
}

/* Hands them to the generated exports, which free what is returned. */
bool exports_longshore_policy_commitments_pools(exports_longshore_policy_commitments_list_pool_t *ret, policy_string_t *err) {
    struct longshore_pools pools = {NULL, NULL, 0};
    const char *wrong = longshore_pools(&pools);
    ret->ptr = wrong ? NULL : calloc(pools.len + 1, sizeof(*ret->ptr));
    ret->len = wrong ? 0 : pools.len;
    struct longshore_pool *pool = pools.first;
    for (size_t at = 0; pool; at++) {
        struct longshore_pool *next = pool->next;
        if (wrong) {
            free(pool->offerings.ptr);
            free(pool->amounts.ptr);
            free(pool->costs.ptr);
        } else {
            exports_longshore_policy_commitments_pool_t *raw = &ret->ptr[at];
            policy_string_dup(&raw->name, pool->name);
            raw->remaining = pool->remaining;
            raw->offerings = pool->offerings;
            raw->amounts = pool->amounts;
            raw->costs = pool->costs;
        }
        free(pool);
        pool = next;
    }
    if (wrong) {
        policy_string_dup(err, wrong);
    }
    return !wrong;
}

#endif
