package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/mpitrace/mpitrace/arrival"
)

// Network is the time of one message: a start and so much for each byte
// (Hockney 1994). It is measured on the machine, see docs/measurements.md.
type Network struct {
	StartupNS float64 `json:"startup_ns"`
	NSPerByte float64 `json:"ns_per_byte"`
}

// networkBytes bounds the text of a calibration.
const networkBytes = 1 << 16

// ReadNetwork reads a calibration.
func ReadNetwork(r io.Reader) (*Network, error) {
	in := json.NewDecoder(io.LimitReader(r, networkBytes))
	in.DisallowUnknownFields()
	var raw struct {
		StartupNS *float64 `json:"startup_ns"`
		NSPerByte *float64 `json:"ns_per_byte"`
	}
	if err := in.Decode(&raw); err != nil {
		return nil, fmt.Errorf("network calibration: %w", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("network calibration: text after the end of the object")
	}
	if raw.StartupNS == nil || raw.NSPerByte == nil {
		return nil, errors.New(`network calibration: needs both "startup_ns" and "ns_per_byte"`)
	}
	n := &Network{*raw.StartupNS, *raw.NSPerByte}
	if !(n.StartupNS > 0) || n.StartupNS > 1e12 || !(n.NSPerByte >= 0) || n.NSPerByte > 1e9 || math.IsNaN(n.NSPerByte) {
		return nil, fmt.Errorf("network calibration: %g ns and %g ns per byte are not the time of a message", n.StartupNS, n.NSPerByte)
	}
	return n, nil
}

// LoadNetwork reads the calibration in a file.
func LoadNetwork(path string) (*Network, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	n, err := ReadNetwork(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// transfer is the time of a message by size; nil without a calibration.
func (n *Network) transfer() func(bytes uint64) float64 {
	if n == nil {
		return nil
	}
	return arrival.Hockney(n.StartupNS, n.NSPerByte)
}
