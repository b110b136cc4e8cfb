// Package longshore is what Longshore policies in Go are written with.
//
// A policy calls Export in init. Columns are functions: row i is the same offering (instance type, zone, capacity type)
// in each. A column costs a call and a copy, so pull what you need.
package longshore

import (
	"encoding/json"
	"fmt"
	"strings"
)

// SignalUse is a signal that a policy reads.
type SignalUse struct {
	// Name is that of [signals.NAME] of the operator's file.
	Name string
	// Required says that the policy is of no use without it.
	Required bool
	// MaxAge in seconds: older numbers are too old for it; 0 for any age.
	MaxAge float64
}

// About is what a policy says about itself.
type About struct {
	// Name: lower case letters, digits and -.
	Name string
	// Version: semantic, 0.1.0.
	Version string
	// Summary: one sentence for people.
	Summary string
	// Signals that it reads. It sees no others.
	Signals []SignalUse
	// SettingsSchema is JSON Schema; the host checks the settings against it. Empty for none.
	SettingsSchema string
}

// A Scorer says what offerings cost.
type Scorer interface {
	// Score gives the effective cost of every offering in USD per hour, in the order of the rows: 0 or more,
	// math.Inf(1) to exclude an offering; not all may be infinite.
	Score() ([]float64, error)
}

// A Pool is an amount that is prepaid, finite and shared (a reservation, a savings plan), and the offerings that draw
// on it.
type Pool struct {
	// Name is what reports call it; unique in an answer.
	Name string
	// Remaining is what is left, in the pool's own unit (instances, vCPUs, USD per hour): finite, 0 or more.
	Remaining float64
	// Offerings by row, each once. Of several pools for an offering the first of the answer that has enough counts.
	Offerings []uint32
	// Amounts that one node of each takes, in the pool's unit: finite, above 0. A node draws wholly or not at all.
	Amounts []float64
	// Costs of a node that draws, in USD per hour: finite, 0 or more.
	Costs []float64
}

// Draw adds an offering by its row: a node takes amount in the pool's unit and costs cost USD per hour.
func (p *Pool) Draw(offering uint32, amount, cost float64) {
	p.Offerings = append(p.Offerings, offering)
	p.Amounts = append(p.Amounts, amount)
	p.Costs = append(p.Costs, cost)
}

// Commitments is a Scorer that knows what is prepaid. The policy's wit/world.wit exports
// longshore:policy/commitments@0.1.0 then.
type Commitments interface {
	Scorer
	// Pools of this catalogue; asked right after Score.
	Pools() ([]Pool, error)
}

var (
	about     About
	configure func(settings string) error
	running   Scorer
)

// Export makes a component of a policy: call it in init. Settings begin as the defaults, and what the operator has set
// is decoded into them; begin makes a scorer of them, or refuses them.
func Export[S any](describes About, defaults S, begin func(settings S) (Scorer, error)) {
	about = describes
	configure = func(text string) error {
		settings := defaults
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&settings); err != nil {
			return err
		}
		scorer, err := begin(settings)
		if err == nil {
			running = scorer
		}
		return err
	}
}

// Describe is for the generated exports.
func Describe() About { return about }

// Configure is for the generated exports.
func Configure(settings string) (err error) {
	defer spoken(&err)
	return configure(settings)
}

// Score is for the generated exports.
func Score() (costs []float64, err error) {
	defer spoken(&err)
	return running.Score()
}

// Pools is for the generated exports.
func Pools() (pools []Pool, err error) {
	defer spoken(&err)
	commitments, knows := running.(Commitments)
	if !knows {
		return nil, fmt.Errorf("%T has no method Pools() ([]longshore.Pool, error), and the world exports commitments", running)
	}
	return commitments.Pools()
}

// A panic would be a trap without words.
func spoken(err *error) {
	if panicked := recover(); panicked != nil {
		*err = fmt.Errorf("panic: %v", panicked)
	}
}
