// Package wire is what a guest and its host say to each other: JSON values, one
// after the other, over a serial port. The guest begins with a Reply, Ready set;
// then each Request is followed by Replies until one has Exited set.
package wire

import "fmt"

// Port is the name of the serial port.
const Port = "mpitrace"

// Request is a command to run.
type Request struct {
	Args    []string
	Dir     string
	Env     []string
	Seconds int // until it is killed
}

// Reply is output of a command, or its end.
type Reply struct {
	Ready    bool   // the guest is up
	Problem  string // what kept the guest, or a command, from starting
	Stdout   []byte
	Stderr   []byte
	Exited   bool
	Status   int // as a shell's: 128+signal if it died of one
	TimedOut bool
}

// Net is an interface that joins two guests, by its name in the guest.
func Net(i int) string { return fmt.Sprintf("eth%d", i) }

// Settings are handed to a guest as a file of its initial file system.
type Settings struct {
	Host      string   // its name
	Addresses []string // of Net(0) and so on, as ADDRESS/BITS; empty: there is none
	Rails     int      // RDMA devices, the first of them at those interfaces
	Modules   []string // of the kernel, files in /modules, in the order of loading
}
