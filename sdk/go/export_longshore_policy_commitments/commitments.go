// Package export_longshore_policy_commitments hands the policy to the generated exports.
package export_longshore_policy_commitments

import (
	"wit_component/longshore"
	contract "wit_component/longshore_policy_commitments"

	types "go.bytecodealliance.org/pkg/wit/types"
)

// Pools is what is prepaid.
func Pools() types.Result[[]contract.Pool, string] {
	pools, err := longshore.Pools()
	if err != nil {
		return types.Err[[]contract.Pool, string](err.Error())
	}
	raw := make([]contract.Pool, len(pools))
	for at, of := range pools {
		raw[at] = contract.Pool{
			Name:      of.Name,
			Remaining: of.Remaining,
			Offerings: of.Offerings,
			Amounts:   of.Amounts,
			Costs:     of.Costs,
		}
	}
	return types.Ok[[]contract.Pool, string](raw)
}
