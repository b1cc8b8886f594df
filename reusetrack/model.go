package reusetrack

import "math"

// Limits of the method.
const (
	// MinBytes: smaller payloads are always copied. The published curves turn
	// negative below 64 bytes; the implementation drew the line at 128 (thesis
	// 5.3.3 and 5.5.1).
	MinBytes = 128
	// DefaultEagerLimit is the largest payload taken for one of eager size
	// unless the caller knows better: the largest that the papers measured.
	// Their library switched at 9 KiB, others switch anywhere from 4 to 64 KiB.
	DefaultEagerLimit = 8 << 10
	// DefaultOneSidedLimit is the same for one-sided operations: the thesis
	// raised that switch from 4 to 9 KiB (Table 5.2).
	DefaultOneSidedLimit = 9 << 10
)

// Speculation is the part of the minimum number of uses after which a buffer
// is registered, in the hope that it will be used on.
type Speculation float64

// The three that were studied; the published measurements use a quarter.
const (
	Quarter Speculation = 0.25
	Half    Speculation = 0.5
	Full    Speculation = 1
)

// maxUses bounds the numbers of uses that the model gives: above it a buffer
// never pays.
const maxUses = 1 << 40

// LookUpNS is V: the price of both look-ups.
func (c *Costs) LookUpNS(bytes uint64) float64 {
	return c.UsageLookUp.At(bytes) + c.CacheLookUp.At(bytes)
}

// GainNS is what one use of a registered buffer saves, Cm - V - Lm in ns;
// negative if copying is cheaper. exposedNS is Lm, the wait for the network to
// have read the buffer as far as the program notices it: about 0 for a
// nonblocking send with work behind it, a round trip for a blocking one.
func (c *Costs) GainNS(bytes uint64, exposedNS float64) float64 {
	return c.Copy.At(bytes) - c.LookUpNS(bytes) - max(0, exposedNS)
}

// MinUses is the least number of uses for which registering a buffer pays:
// n > Rm / (Cm - V - Lm) (Eq 5.3, with the term Lm that it leaves out; Eq 5.4
// and 5.5 give the same n for one-sided operations). It is false where no
// number does: below MinBytes, or when a copy costs no more than looking up and
// waiting.
func (c *Costs) MinUses(bytes uint64, exposedNS float64) (uint64, bool) {
	gain := c.GainNS(bytes, exposedNS)
	if bytes < MinBytes || !(gain > 0) {
		return 0, false
	}
	n := math.Floor(c.Register.At(bytes)/gain) + 1
	if n > maxUses {
		return 0, false
	}
	return uint64(n), true
}

// Threshold is the use at which a buffer is registered: the part s of MinUses,
// rounded up, at least 1. A 4 KiB buffer whose minimum is 60 is registered at
// its 15th use by a quarter.
func (c *Costs) Threshold(bytes uint64, exposedNS float64, s Speculation) (uint64, bool) {
	n, ok := c.MinUses(bytes, exposedNS)
	if !ok || !(s > 0) || s > 1 {
		return 0, false
	}
	return max(1, uint64(math.Ceil(float64(n)*float64(s)))), true
}

// CopyNS is Tc, the time of n messages that are copied. transferNS is NTm, the
// time of one on the network. Two-sided (Eq 5.1) has a copy at both ends,
// one-sided (Eq 5.4) at the origin only.
func (c *Costs) CopyNS(oneSided bool, bytes, n uint64, transferNS float64) float64 {
	copies := 2.0
	if oneSided {
		copies = 1
	}
	return float64(n) * (copies*c.Copy.At(bytes) + transferNS)
}

// ZeroCopyNS is Tn, the time of n messages from a registered buffer (Eq 5.2,
// and 5.5 for one-sided operations), with Lm added to each.
func (c *Costs) ZeroCopyNS(oneSided bool, bytes, n uint64, transferNS, exposedNS float64) float64 {
	copies := 1.0
	if oneSided {
		copies = 0
	}
	each := copies*c.Copy.At(bytes) + transferNS + c.LookUpNS(bytes) + max(0, exposedNS)
	return float64(n)*each + c.Register.At(bytes)
}

// Improvement is the theoretical improvement (Eq 5.6): the share of the old
// latency of a message, in ns, that is saved when a buffer is used n times.
func (c *Costs) Improvement(bytes, n uint64, oldLatencyNS, exposedNS float64) float64 {
	if n == 0 || !(oldLatencyNS > 0) {
		return 0
	}
	return (c.GainNS(bytes, exposedNS) - c.Register.At(bytes)/float64(n)) / oldLatencyNS
}

// cold is the costs with sources that are not in the cache.
func (c *Costs) cold() *Costs {
	other := *c
	if len(c.CopyCold) > 0 {
		other.Copy = c.CopyCold
	}
	return &other
}
