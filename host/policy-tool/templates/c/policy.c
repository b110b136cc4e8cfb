/* {{name}}: adds a surcharge to the cost of spot offerings. */
#include "longshore.h"

const struct longshore_about longshore_about = {
    .name = "{{name}}",
    .version = "0.1.0",
    .summary = "Adds a surcharge to the cost of spot offerings.",
    .settings_schema = "{\"type\": \"object\", \"properties\": {\"percent\": {\"description\": \"Of the cost; default 15.\", "
                       "\"type\": \"number\", \"minimum\": 0}}}",
};

/* What the cost of a spot offering is multiplied by. */
static double factor = 1.15;

const char *longshore_configure(const char *settings) {
    factor = 1 + longshore_number(settings, "percent", 15) / 100;
    return NULL;
}

const char *longshore_score(longshore_f64s costs) {
    longshore_strings names = longshore_capacity_type_names();
    longshore_u32s types = longshore_capacity_types();
    for (size_t row = 0; row < costs.len; row++) {
        if (longshore_is(names.ptr[types.ptr[row]], "spot")) {
            costs.ptr[row] *= factor;
        }
    }
    policy_list_string_free(&names);
    policy_list_u32_free(&types);
    return NULL;
}
