// Package export_longshore_policy_scorer says what offerings cost.
package export_longshore_policy_scorer

import (
	plugin "wit_component/export_longshore_policy_plugin"
	chain "wit_component/longshore_policy_chain"
	offerings "wit_component/longshore_policy_offerings"

	types "go.bytecodealliance.org/pkg/wit/types"
)

// Score answers the effective cost of every offering, in USD per hour.
func Score() types.Result[[]float64, string] {
	names := offerings.CapacityTypeNames()
	capacityTypes := offerings.CapacityTypes()
	costs := chain.Costs()
	for i := range costs {
		if names[capacityTypes[i]] == "spot" {
			costs[i] *= plugin.Factor
		}
	}
	return types.Ok[[]float64, string](costs)
}
