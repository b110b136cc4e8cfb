// Package policy says that so many cores on demand are paid for already.
package policy

import "wit_component/longshore"

type settings struct {
	Cores float64 `json:"cores"`
}

type prepaid struct {
	cores float64
}

func init() {
	about := longshore.About{
		Name:    "prepaid",
		Version: "0.1.0",
		Summary: "Cores on demand that are paid for cost nothing more.",
		SettingsSchema: `{"type": "object", "properties": {
			"cores": {"description": "Left; default 8.", "type": "number", "minimum": 0}}}`,
	}
	longshore.Export(about, settings{Cores: 8}, func(s settings) (longshore.Scorer, error) {
		return prepaid{cores: s.Cores}, nil
	})
}

func (p prepaid) Score() ([]float64, error) {
	return longshore.Costs(), nil
}

func (p prepaid) Pools() ([]longshore.Pool, error) {
	pool := longshore.Pool{Name: "cores", Remaining: p.cores}
	names, types := longshore.CapacityTypeNames(), longshore.CapacityTypes()
	for row, millicores := range longshore.CPUMillicores() {
		if names[types[row]] == "on-demand" {
			pool.Draw(uint32(row), float64(millicores)/1000, 0)
		}
	}
	return []longshore.Pool{pool}, nil
}
