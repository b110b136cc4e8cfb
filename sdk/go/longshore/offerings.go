package longshore

import offerings "wit_component/longshore_policy_offerings"

// Edition: sixteen digits made of all static columns: keep what you derive from them as long as it is the same.
func Edition() string { return offerings.Edition() }

// Count: how many offerings there are.
func Count() uint32 { return offerings.Count() }

// InstanceTypeNames: table: names of instance types, "m7g.large". Static.
func InstanceTypeNames() []string { return offerings.InstanceTypeNames() }

// InstanceTypes: index into InstanceTypeNames. Rows of one type are contiguous. Static.
func InstanceTypes() []uint32 { return offerings.InstanceTypes() }

// ZoneNames: table: zones, "us-east-1a". Static.
func ZoneNames() []string { return offerings.ZoneNames() }

// Zones: index into ZoneNames. Static.
func Zones() []uint32 { return offerings.Zones() }

// CapacityTypeNames: table: "on-demand", "spot", "reserved"; more may come. Static.
func CapacityTypeNames() []string { return offerings.CapacityTypeNames() }

// CapacityTypes: index into CapacityTypeNames. Static.
func CapacityTypes() []uint32 { return offerings.CapacityTypes() }

// ArchitectureNames: table: "amd64", "arm64". Static.
func ArchitectureNames() []string { return offerings.ArchitectureNames() }

// Architectures: index into ArchitectureNames. Static.
func Architectures() []uint32 { return offerings.Architectures() }

// ReservationNames: table: reservations by id; the empty string stands for none. Static.
func ReservationNames() []string { return offerings.ReservationNames() }

// Reservations: index into ReservationNames. Static.
func Reservations() []uint32 { return offerings.Reservations() }

// CPUMillicores: what the machine has, in thousandths of a core. Static.
func CPUMillicores() []uint32 { return offerings.CpuMillicores() }

// MemoryMiB: what the machine has, in MiB. Static.
func MemoryMiB() []uint32 { return offerings.MemoryMib() }

// Prices: list price in USD per hour. Start from Costs, not from this.
func Prices() []float64 { return offerings.Prices() }

// Available: 1 if the cloud says that it can be had now, else 0.
func Available() []uint8 { return offerings.Available() }

// ReservationCounts: for offerings of a reservation, how many instances are left in it; otherwise 0.
func ReservationCounts() []uint32 { return offerings.ReservationCounts() }
