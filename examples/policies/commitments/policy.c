/* prepaid: so many cores on demand are paid for already. */
#include "longshore.h"
#include "longshore_commitments.h"

const struct longshore_about longshore_about = {
    .name = "prepaid",
    .version = "0.1.0",
    .summary = "Cores on demand that are paid for cost nothing more.",
    .settings_schema = "{\"type\": \"object\", \"properties\": {\"cores\": {\"description\": \"Left; default 8.\", "
                       "\"type\": \"number\", \"minimum\": 0}}}",
};

static double cores = 8;

const char *longshore_configure(const char *settings) {
    cores = longshore_number(settings, "cores", 8);
    return NULL;
}

/* `costs` has what the policy before says already. */
const char *longshore_score(longshore_f64s costs) {
    (void)costs;
    return NULL;
}

const char *longshore_pools(struct longshore_pools *pools) {
    struct longshore_pool *pool = longshore_pool(pools, "cores", cores);
    longshore_strings names = longshore_capacity_type_names();
    longshore_u32s types = longshore_capacity_types(), millicores = longshore_cpu_millicores();
    for (uint32_t row = 0; row < types.len; row++) {
        if (longshore_is(names.ptr[types.ptr[row]], "on-demand")) {
            longshore_draw(pool, row, millicores.ptr[row] / 1000.0, 0);
        }
    }
    policy_list_string_free(&names);
    policy_list_u32_free(&types);
    policy_list_u32_free(&millicores);
    return NULL;
}
