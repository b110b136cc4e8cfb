/* Hands a policy in C to the generated exports. */
#include "longshore.h"

static size_t count(const char *const *names) {
    size_t len = 0;
    while (names && names[len]) {
        len++;
    }
    return len;
}

/* The generated code frees what is returned, hence the copies. */
void exports_longshore_policy_plugin_describe(exports_longshore_policy_plugin_description_t *ret) {
    policy_string_dup(&ret->name, longshore_about.name);
    policy_string_dup(&ret->version, longshore_about.version);
    policy_string_dup(&ret->summary, longshore_about.summary);
    policy_string_dup(&ret->settings_schema, longshore_about.settings_schema);
    ret->annotations.ptr = NULL;
    ret->annotations.len = 0;
    ret->signals.len = count(longshore_about.signals);
    ret->signals.ptr = calloc(ret->signals.len + 1, sizeof(*ret->signals.ptr));
    for (size_t at = 0; at < ret->signals.len; at++) {
        policy_string_dup(&ret->signals.ptr[at].name, longshore_about.signals[at]);
    }
}

bool exports_longshore_policy_plugin_configure(policy_string_t *settings, policy_string_t *err) {
    char *text = malloc(settings->len + 1);
    memcpy(text, settings->ptr, settings->len);
    text[settings->len] = '\0';
    policy_string_free(settings);
    const char *wrong = longshore_configure(text);
    if (wrong) {
        policy_string_dup(err, wrong);
    }
    free(text);
    return !wrong;
}

bool exports_longshore_policy_scorer_score(policy_list_f64_t *ret, policy_string_t *err) {
    *ret = longshore_costs();
    const char *wrong = longshore_score(*ret);
    if (wrong) {
        policy_list_f64_free(ret);
        policy_string_dup(err, wrong);
    }
    return !wrong;
}

/* Past a string that begins at `at`, or at its end if it is not closed. */
static const char *past_string(const char *at) {
    for (at++; *at && *at != '"'; at++) {
        if (*at == '\\' && at[1]) {
            at++;
        }
    }
    return *at ? at + 1 : at;
}

double longshore_number(const char *settings, const char *key, double otherwise) {
    int depth = 0;
    for (const char *at = settings; *at;) {
        if (*at != '"') {
            depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
            at++;
            continue;
        }
        const char *name = at + 1;
        at = past_string(at);
        size_t len = (size_t)(at - name) - 1;
        bool is_key = depth == 1 && *at == ':';
        if (is_key && len == strlen(key) && memcmp(name, key, len) == 0) {
            return strtod(at + 1, NULL);
        }
    }
    return otherwise;
}
