// Package export_longshore_policy_plugin hands the policy to the generated exports.
package export_longshore_policy_plugin

import (
	"wit_component/longshore"
	contract "wit_component/longshore_policy_plugin"

	types "go.bytecodealliance.org/pkg/wit/types"
)

// Describe is asked once per load.
func Describe() contract.Description {
	about := longshore.Describe()
	signals := make([]contract.SignalUse, len(about.Signals))
	for at, of := range about.Signals {
		signals[at] = contract.SignalUse{Name: of.Name, Required: of.Required, MaxAge: of.MaxAge}
	}
	return contract.Description{
		Name:           about.Name,
		Version:        about.Version,
		Summary:        about.Summary,
		Signals:        signals,
		SettingsSchema: about.SettingsSchema,
	}
}

// Configure takes the settings, a JSON object.
func Configure(text string) types.Result[types.Unit, string] {
	if err := longshore.Configure(text); err != nil {
		return types.Err[types.Unit, string](err.Error())
	}
	return types.Ok[types.Unit, string](types.Unit{})
}
