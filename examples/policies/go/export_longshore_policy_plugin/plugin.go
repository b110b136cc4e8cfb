// Package export_longshore_policy_plugin says who the policy is and takes its settings.
package export_longshore_policy_plugin

import (
	"encoding/json"
	"strings"

	contract "wit_component/longshore_policy_plugin"

	types "go.bytecodealliance.org/pkg/wit/types"
)

// Factor is what the price of a spot offering is multiplied by.
var Factor = 1.15

// Describe is asked once per load.
func Describe() contract.Description {
	return contract.Description{
		Name:       "spot-surcharge",
		Version:    "0.1.0",
		Summary:    "Adds a surcharge to the price of spot offerings.",
		SettingsSchema: `{"type": "object", "properties": {
			"percent": {"description": "Of the price; default 15.", "type": "number", "minimum": 0}}}`,
	}
}

// Configure takes the settings, a JSON object.
func Configure(text string) types.Result[types.Unit, string] {
	settings := struct {
		Percent float64 `json:"percent"`
	}{15}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&settings); err != nil {
		return types.Err[types.Unit, string](err.Error())
	}
	Factor = 1 + settings.Percent/100
	return types.Ok[types.Unit, string](types.Unit{})
}
