package reusetrack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// CostsSchema is the version of the JSON form of Costs.
const CostsSchema = 1

// ErrCosts is wrapped by all errors about costs that cannot be used.
var ErrCosts = errors.New("costs cannot be used")

// Limits of what Validate accepts.
const (
	maxPoints     = 1024
	maxNS         = 1e15    // eleven days
	maxCostsBytes = 1 << 20 // of a JSON text
)

// Point is a cost at one size.
type Point struct {
	Bytes uint64  `json:"bytes"`
	NS    float64 `json:"ns"`
}

// Curve is a cost by size, sizes rising. A cost that does not depend on the
// size has one point.
type Curve []Point

// At is the cost of a size in ns: linear between points, that of the first
// point below it, and above the last one along the line of the last two, but
// never below zero. It is 0 for an empty curve.
func (c Curve) At(bytes uint64) float64 {
	if len(c) == 0 {
		return 0
	}
	i, _ := slices.BinarySearchFunc(c, bytes, func(p Point, b uint64) int {
		switch {
		case p.Bytes < b:
			return -1
		case p.Bytes > b:
			return 1
		}
		return 0
	})
	if i == 0 || len(c) == 1 {
		return c[0].NS
	}
	i = min(i, len(c)-1)
	a, b := c[i-1], c[i]
	if bytes == b.Bytes {
		return b.NS
	}
	return max(0, a.NS+(b.NS-a.NS)*(float64(bytes-a.Bytes)/float64(b.Bytes-a.Bytes)))
}

func (c Curve) validate() error {
	if len(c) > maxPoints {
		return fmt.Errorf("%d points, at most %d are taken", len(c), maxPoints)
	}
	for i, p := range c {
		if math.IsNaN(p.NS) || p.NS < 0 || p.NS > maxNS {
			return fmt.Errorf("%v ns at %d bytes: not between 0 and %g", p.NS, p.Bytes, maxNS)
		}
		if i > 0 && p.Bytes <= c[i-1].Bytes {
			return fmt.Errorf("%d bytes after %d: sizes must rise", p.Bytes, c[i-1].Bytes)
		}
	}
	return nil
}

// Costs is what the cost model needs to know of a machine, by payload in
// bytes, in ns. They are measured on the machine; the package has none built
// in, because they differ by an order of magnitude between machines.
type Costs struct {
	Schema int    `json:"schema"`
	Source string `json:"source"` // machine, date, how they were measured
	// StandIn: Register is the price of locking memory, not of a network's
	// registration, which is dearer. Numbers of uses are then too low.
	StandIn bool     `json:"stand_in"`
	Notes   []string `json:"notes,omitempty"`

	Copy       Curve `json:"copy"`                 // Cm: one copy, source in the cache
	CopyCold   Curve `json:"copy_cold,omitempty"`  // the same, source in memory; empty: as Copy
	Register   Curve `json:"register"`             // Rm: registration, once per buffer
	Deregister Curve `json:"deregister,omitempty"` // for information: the model keeps buffers registered
	// V is the sum of these two. Each send that is followed pays the first,
	// also one that is copied in the end.
	UsageLookUp Curve `json:"usage_lookup"`           // looking the buffer up in the usage table
	CacheLookUp Curve `json:"cache_lookup,omitempty"` // looking the registration up
	// Exposed is Lm: what a send waits that must not return before the network
	// has read the buffer. Empty: not known.
	Exposed Curve `json:"exposed,omitempty"`
}

// Validate tells what is wrong with the costs; the error wraps ErrCosts.
func (c *Costs) Validate() error {
	if c.Schema != CostsSchema {
		return fmt.Errorf("%w: schema %d, this program reads %d", ErrCosts, c.Schema, CostsSchema)
	}
	for _, f := range []struct {
		name     string
		curve    Curve
		required bool
	}{
		{"copy", c.Copy, true}, {"copy_cold", c.CopyCold, false}, {"register", c.Register, true}, {"deregister", c.Deregister, false},
		{"usage_lookup", c.UsageLookUp, true}, {"cache_lookup", c.CacheLookUp, false}, {"exposed", c.Exposed, false},
	} {
		if f.required && len(f.curve) == 0 {
			return fmt.Errorf("%w: %s is missing", ErrCosts, f.name)
		}
		if err := f.curve.validate(); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrCosts, f.name, err)
		}
	}
	return nil
}

// ReadCosts reads and validates the JSON form. Unknown members are refused: a
// misspelt one would otherwise go unnoticed.
func ReadCosts(r io.Reader) (*Costs, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxCostsBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCosts, err)
	}
	if len(text) > maxCostsBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrCosts, maxCostsBytes)
	}
	return parseCosts(text)
}

func parseCosts(text []byte) (*Costs, error) {
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	c := &Costs{}
	if err := in.Decode(c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCosts, err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: text after the end of the object", ErrCosts)
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// LoadCosts reads the costs in a file.
func LoadCosts(path string) (*Costs, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c, err := ReadCosts(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// WriteJSON writes the costs as ReadCosts reads them.
func (c *Costs) WriteJSON(w io.Writer) error {
	if err := c.Validate(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return fmt.Errorf("costs as JSON: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
