package longshore

import (
	chain "wit_component/longshore_policy_chain"
	joined "wit_component/longshore_policy_joined"
	labels "wit_component/longshore_policy_labels"
	log "wit_component/longshore_policy_log"
	pool "wit_component/longshore_policy_node_pool"
	request "wit_component/longshore_policy_request"
	resources "wit_component/longshore_policy_resources"
	signals "wit_component/longshore_policy_signals"
)

// Costs is what each offering costs by the policy before this one, in USD per hour; the list price for the first.
// Infinite where it is excluded, which it stays whatever is answered.
func Costs() []float64 { return chain.Costs() }

// Now is when it is asked, in seconds since 1970. The only time there is.
func Now() float64 { return request.Now() }

// NodePool is the name of the NodePool that nodes are wanted for. A policy that asks is asked once for each.
func NodePool() string { return pool.Name() }

// NodePoolWeight is its weight; 0 without one.
func NodePoolWeight() uint32 { return pool.Weight() }

// NodePoolLabels are the labels of its nodes, by key.
func NodePoolLabels() map[string]string {
	all := map[string]string{}
	for _, pair := range pool.Labels() {
		all[pair.F0] = pair.F1
	}
	return all
}

// NodePoolAnnotations are the annotations of its nodes, by key.
func NodePoolAnnotations() map[string]string {
	all := map[string]string{}
	for _, pair := range pool.Annotations() {
		all[pair.F0] = pair.F1
	}
	return all
}

// LabelKeys are all keys that any offering has, sorted.
func LabelKeys() []string { return labels.Keys() }

// LabelColumn is the value that each offering has of a label; the empty string for none.
func LabelColumn(key string) []string {
	table, rows := labels.Values(key), labels.Rows(key)
	column := make([]string, len(rows))
	for at, row := range rows {
		column[at] = table[row]
	}
	return column
}

// ResourceNames are all resources that any offering has, sorted: cpu, memory, nvidia.com/gpu.
func ResourceNames() []string { return resources.Names() }

// Capacity is what the machine of each offering has: cores, bytes or devices; 0 for none.
func Capacity(name string) []float64 { return resources.Capacity(name) }

// Allocatable is what pods can have of it: cores, bytes or devices.
func Allocatable(name string) []float64 { return resources.Allocatable(name) }

// Joined is, for each offering, the first that the table of a signal has of type/zone/capacity-type, type/zone, type,
// zone and region, in the unit of the signal; else otherwise.
func Joined(signal string, otherwise float64) []float64 { return joined.Column(signal, otherwise) }

// Signal is a table of numbers that the host has fetched.
type Signal struct {
	// Time when it was fetched, in seconds since 1970; 0 for a file that is given to plan.
	Time float64
	// Values by key, in the unit of the signal.
	Values map[string]float64
}

// GetSignal is the table of that name; false if the host has none, or the policy may not read it.
func GetSignal(name string) (Signal, bool) {
	time := signals.Time(name)
	if time != time {
		return Signal{}, false
	}
	keys, values := signals.Keys(name), signals.Values(name)
	all := make(map[string]float64, len(keys))
	for at, key := range keys {
		all[key] = values[at]
	}
	return Signal{time, all}, true
}

// Debug says what only authors of policies want to know.
func Debug(message string) { log.Write(log.LevelDebug, message) }

// Info says something of interest.
func Info(message string) { log.Write(log.LevelInfo, message) }

// Warn says what operators should look at some day.
func Warn(message string) { log.Write(log.LevelWarn, message) }

// Error says what operators should look at now.
func Error(message string) { log.Write(log.LevelError, message) }
