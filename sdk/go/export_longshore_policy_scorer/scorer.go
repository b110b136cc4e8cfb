// Package export_longshore_policy_scorer hands the policy to the generated exports.
package export_longshore_policy_scorer

import (
	"wit_component/longshore"

	types "go.bytecodealliance.org/pkg/wit/types"
)

// Score is what offerings cost.
func Score() types.Result[[]float64, string] {
	costs, err := longshore.Score()
	if err != nil {
		return types.Err[[]float64, string](err.Error())
	}
	return types.Ok[[]float64, string](costs)
}
