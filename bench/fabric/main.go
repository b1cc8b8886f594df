// Command fabric measures the transport, and prints beside its figures those that
// the papers have for theirs:
//
//	go run ./bench/fabric                     # all of it
//	go run ./bench/fabric -only mpi -rounds 7
//
// Shared memory is measured against the native MPIs; the other sections are modes
// of mpitrace fabric, of this host and between two hosts of this machine (network
// namespaces, so they want root). Figures are medians of rounds, each of which
// measures everything once.
//
// make bench-fabric
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/test/hosts"
)

// sections are the parts of the measurement, in their order.
var sections = []struct {
	name, title string
	run         func(*bench) error
}{
	{"mpi", "shared memory against the MPIs", againstMPI},
	{"iwarp", "sockets between two hosts: RC and UD", iwarp},
	{"connections", "up to 256 connections", connections},
	{"registration", "registering memory", registration},
	{"cache", "keeping registrations", cache},
	{"rails", "one message over several rails", rails},
	{"memory", "memory of further peers", memory},
	{"rendezvous", "when the sender of a READ message may go on", rendezvous},
}

// bench is what the sections share.
type bench struct {
	tool    string // mpitrace-fabric
	scratch string // a directory
	rounds  int
	quick   bool
	hosts   *hosts.Hosts // two with two networks; nil: not made yet
}

func main() {
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	b := &bench{}
	only := flag.String("only", strings.Join(names, ","), "sections, comma separated")
	build := flag.String("build", "build", "`directory` of mpitrace-fabric")
	flag.IntVar(&b.rounds, "rounds", 7, "`rounds`, each of which measures everything once")
	flag.BoolVar(&b.quick, "quick", false, "smoke run: one round of a few iterations")
	flag.Parse()
	if b.quick {
		b.rounds = 1
	}
	var err error
	if b.tool, err = filepath.Abs(filepath.Join(*build, "mpitrace-fabric")); err == nil {
		err = b.run(strings.Split(*only, ","), names)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/fabric:", err)
		os.Exit(1)
	}
}

func (b *bench) run(only, names []string) (err error) {
	for _, name := range only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no section %s: there are %s", name, strings.Join(names, ", "))
		}
	}
	if b.scratch, err = os.MkdirTemp("", "bench-fabric"); err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	defer os.RemoveAll(b.scratch)
	defer func() {
		if b.hosts != nil {
			err = errors.Join(err, b.hosts.Close())
		}
	}()
	for _, s := range sections {
		if !slices.Contains(only, s.name) {
			continue
		}
		fmt.Printf("\n%s: %s\n", s.name, s.title)
		if err := s.run(b); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}
