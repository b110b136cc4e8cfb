// Package policy adds a surcharge to the cost of spot offerings.
package policy

import "wit_component/longshore"

type settings struct {
	Percent float64 `json:"percent"`
}

type spotSurcharge struct {
	// What the cost of a spot offering is multiplied by.
	factor float64
}

func init() {
	about := longshore.About{
		Name:    "{{name}}",
		Version: "0.1.0",
		Summary: "Adds a surcharge to the cost of spot offerings.",
		SettingsSchema: `{"type": "object", "properties": {
			"percent": {"description": "Of the cost; default 15.", "type": "number", "minimum": 0}}}`,
	}
	longshore.Export(about, settings{Percent: 15}, func(s settings) (longshore.Scorer, error) {
		return spotSurcharge{factor: 1 + s.Percent/100}, nil
	})
}

func (s spotSurcharge) Score() ([]float64, error) {
	names, types, costs := longshore.CapacityTypeNames(), longshore.CapacityTypes(), longshore.Costs()
	for row := range costs {
		if names[types[row]] == "spot" {
			costs[row] *= s.factor
		}
	}
	return costs, nil
}
