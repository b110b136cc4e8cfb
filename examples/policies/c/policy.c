/* A policy in C: adds a surcharge to the price of spot offerings. */
#include <stdlib.h>
#include <string.h>

#include "scorer_policy.h"

/* What the price of a spot offering is multiplied by. */
static double factor = 1.15;

/* Asked once per load. The generated code frees what is returned, hence the copies (`_dup`). */
void exports_longshore_policy_plugin_describe(exports_longshore_policy_plugin_description_t *ret) {
    scorer_policy_string_dup(&ret->name, "spot-surcharge");
    scorer_policy_string_dup(&ret->version, "0.1.0");
    scorer_policy_string_dup(&ret->summary, "Adds a surcharge to the price of spot offerings.");
    ret->signals.ptr = NULL;
    ret->signals.len = 0;
    ret->annotations.ptr = NULL;
    ret->annotations.len = 0;
    scorer_policy_string_dup(&ret->settings_schema,
        "{\"type\": \"object\", \"properties\": {"
        "\"percent\": {\"description\": \"Of the price; default 15.\", \"type\": \"number\", \"minimum\": 0}}}");
}

/* Takes the settings, a JSON object. The host has held them against the schema: there is one key at most, a number. */
bool exports_longshore_policy_plugin_configure(scorer_policy_string_t *settings, scorer_policy_string_t *err) {
    (void)err;
    char *text = malloc(settings->len + 1);
    memcpy(text, settings->ptr, settings->len);
    text[settings->len] = '\0';
    const char *colon = strchr(text, ':');
    double percent = colon ? strtod(colon + 1, NULL) : 15.0;
    factor = 1.0 + percent / 100.0;
    free(text);
    scorer_policy_string_free(settings);
    return true;
}

/* Answers the effective cost of every offering, in USD per hour. */
bool exports_longshore_policy_scorer_score(scorer_policy_list_f64_t *ret, scorer_policy_string_t *err) {
    (void)err;
    scorer_policy_list_string_t names;
    scorer_policy_list_u32_t capacity_types;
    scorer_policy_list_f64_t costs;
    longshore_policy_offerings_capacity_type_names(&names);
    longshore_policy_offerings_capacity_types(&capacity_types);
    longshore_policy_chain_costs(&costs);

    double *factors = malloc(names.len * sizeof(double));
    for (size_t i = 0; i < names.len; i++) {
        bool spot = names.ptr[i].len == 4 && memcmp(names.ptr[i].ptr, "spot", 4) == 0;
        factors[i] = spot ? factor : 1.0;
    }
    ret->len = costs.len;
    ret->ptr = malloc(costs.len * sizeof(double));
    for (size_t i = 0; i < costs.len; i++) {
        ret->ptr[i] = costs.ptr[i] * factors[capacity_types.ptr[i]];
    }
    free(factors);
    scorer_policy_list_string_free(&names);
    scorer_policy_list_u32_free(&capacity_types);
    scorer_policy_list_f64_free(&costs);
    return true;
}
