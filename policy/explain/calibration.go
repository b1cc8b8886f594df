package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/mpitrace/mpitrace/reusetrack"
)

// CalibrationSchema is the version of the JSON form of Calibration.
const CalibrationSchema = 1

// ErrCalibration is wrapped by all errors about calibrations that cannot be
// used.
var ErrCalibration = errors.New("the calibration cannot be used")

// Calibration is what was measured on one node with one device.
type Calibration struct {
	Schema int               `json:"schema"`
	Node   string            `json:"node"`
	Device string            `json:"device"`
	Costs  *reusetrack.Costs `json:"costs"` // Cm, Rm, V, and Lm as Exposed
	// Transfer is T: half the time of a message there and back, by payload.
	Transfer reusetrack.Curve `json:"transfer"`
}

// ReadCalibration reads and validates the JSON form.
func ReadCalibration(text []byte) (*Calibration, error) {
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	c := &Calibration{}
	switch err := in.Decode(c); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%w: it is empty or cut off: calibrate anew", ErrCalibration)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrCalibration, err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: text after the end of the object", ErrCalibration)
	}
	return c, c.Validate()
}

// Validate tells what is wrong; the error wraps ErrCalibration.
func (c *Calibration) Validate() error {
	switch {
	case c.Schema != CalibrationSchema:
		return fmt.Errorf("%w: schema %d, this program reads %d", ErrCalibration, c.Schema, CalibrationSchema)
	case c.Costs == nil || len(c.Transfer) == 0:
		return fmt.Errorf("%w: it needs costs and transfer", ErrCalibration)
	}
	for _, text := range append([]string{c.Node, c.Device, c.Costs.Source}, c.Costs.Notes...) {
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Errorf("%w: %q has characters that cannot be printed", ErrCalibration, text)
		}
	}
	// The curve is held to the rules of those in Costs.
	checked := *c.Costs
	checked.Exposed = c.Transfer
	for _, costs := range []*reusetrack.Costs{c.Costs, &checked} {
		if err := costs.Validate(); err != nil {
			return fmt.Errorf("%w: %w", ErrCalibration, err)
		}
	}
	return nil
}

// Fabric puts what a device was measured to cost in the place of stand-ins:
// registration by size, and half the time of a message there and back.
func (c *Calibration) Fabric(register, deregister, transfer reusetrack.Curve) {
	c.Costs.Register, c.Costs.Deregister, c.Costs.StandIn = register, deregister, false
	c.Transfer = transfer
	c.Costs.Exposed = nil
	for _, p := range transfer {
		c.Costs.Exposed = append(c.Costs.Exposed, reusetrack.Point{Bytes: p.Bytes, NS: p.NS + transfer[0].NS})
	}
	c.Costs.Notes = []string{
		"look-ups are those of the Go twins; the tables in C are faster",
		"exposed is not measured: it is taken to be the message's way there and the shortest message's back, which is the most it can be",
	}
}
