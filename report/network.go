package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/mpitrace/mpitrace/arrival"
)

// Network is the time of one message: a start and so much for each byte
// (Hockney 1994). It is measured on the machine, see docs/measurements.md.
type Network struct {
	StartupNS float64 `json:"startup_ns"`
	NSPerByte float64 `json:"ns_per_byte"`
	// Of one that mpitrace bench has stored: for messages within this node.
	Node string `json:"node,omitempty"`
	MPI  string `json:"mpi,omitempty"` // first line of MPI_Get_library_version
	Time string `json:"time,omitempty"`
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
		Node      string   `json:"node"`
		MPI       string   `json:"mpi"`
		Time      string   `json:"time"`
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
	n := &Network{*raw.StartupNS, *raw.NSPerByte, raw.Node, raw.MPI, raw.Time}
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

// CalibrationDir is where mpitrace bench stores calibrations of the nodes that
// it ran on, by node and MPI library.
func CalibrationDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "mpitrace", "network"), nil
}

// calibrationName is the file of a node and MPI library in the directory.
func calibrationName(node, mpi string) string {
	sum := sha256.Sum256([]byte(node + "\n" + mpi))
	return hex.EncodeToString(sum[:12]) + ".json"
}

// Store keeps the calibration for reports on jobs within its node.
func (n *Network) Store(dir string) error {
	text, err := json.Marshal(n)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // gone once renamed
	_, err = file.Write(append(text, '\n'))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(dir, calibrationName(n.Node, n.MPI)))
}

// stored is the calibration for a job that ran within one node; nil if there is
// none.
func (b *builder) stored() *Network {
	if b.options.Calibrations == "" || len(b.nodes) != 1 {
		return nil
	}
	for node := range b.nodes {
		path := filepath.Join(b.options.Calibrations, calibrationName(node, b.report.Job.MPI))
		n, err := LoadNetwork(path)
		switch {
		case err == nil && n.Node == node && n.MPI == b.report.Job.MPI:
			return n
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			b.problem("the stored time of a message is left out: " + err.Error())
		}
	}
	return nil
}

// sourceText says what is known of the calibration.
func (n *Network) sourceText() string {
	text := fmt.Sprintf("%s ns and %s ns a byte", digits(n.StartupNS), digits(n.NSPerByte))
	if n.Node == "" {
		return text + ", given by --network"
	}
	return text + ", measured by mpitrace bench on " + clean(n.Node) + " at " + clean(n.Time)
}

// transfer is the time of a message by size, 0 as long as there is no
// calibration.
func (b *builder) transfer(bytes uint64) float64 {
	if n := b.options.Network; n != nil {
		return arrival.Hockney(n.StartupNS, n.NSPerByte)(bytes)
	}
	return 0
}
