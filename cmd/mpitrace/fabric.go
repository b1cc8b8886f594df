package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/mpitrace/mpitrace/internal/libexec"
	"github.com/spf13/cobra"
)

// fabricProgram does what mpitrace fabric asks for.
const fabricProgram = "mpitrace-fabric"

// fabricModes are the first argument, and what it is for.
var fabricModes = [][2]string{
	{"list", "devices, ports and what they can do"},
	{"pingpong", "latency of SEND, and of WRITE with a notice"},
	{"bandwidth", "one way, ping-pong and both ways"},
	{"registration", "what registering memory costs"},
	{"connections", "latency and throughput of 1 to 256 connections"},
	{"rails", "several rails against one"},
	{"memory", "memory for each peer, UD against RC"},
	{"datagrams", "latency and bandwidth, UD against RC"},
	{"rendezvous", "a message by READ, its FIN after it or fenced"},
}

func newFabricCommand() *cobra.Command {
	long := `Show the devices that messages can travel over (InfiniBand, RoCE and iWARP by
libibverbs, iWARP over sockets, shared memory), and measure them between two
processes: of this node, or of two with --listen and --connect. Data is checked
in every mode, and every wait is bounded.

`
	var words []string
	for _, m := range fabricModes {
		long += fmt.Sprintf("  %-14s %s\n", m[0], m[1])
		words = append(words, m[0])
	}
	return &cobra.Command{
		Use:   "fabric MODE [options]",
		Short: "Devices for messages: what is there, and what it is worth",
		Long: long + `
Options:

  --device PATTERNS      rails: names of ports or devices with * ? [ ], divided
                         by commas (default: the first device)
  --per-port N           so many rails of each port
  --engine ENGINE        who moves data in a device of software: inline (the
                         process that asks), peer (the one that polls), thread
  --engine-cpu A,B       processors of the threads of engine thread
  --size BYTES[,BYTES]   of messages; K, M: times 1024
  --iterations N         of each size
  --connections N        connections or peers at most (256)
  --duration MS          of a measurement for a fixed time (200)
  --operation OPERATION  of bandwidth: write (with a notice behind it), or send
  --buffers KIND         where data lies: device (memory that the device
                         allocated), or registered (the process's own)
  --stripe-above BYTES   messages that are split over all rails (1024)
  --cpu A,B              processors of the two processes
  --listen [HOST:]PORT   be one of two hosts, and wait for the other
  --connect HOST[:PORT]  be the other, which does what the first says
  --timeout SECONDS      most time for any wait (20)
  --faults FILE          let things go wrong as the script says
  --json                 results as JSON

docs/fabric.md says what each mode measures.`,
		Example: `  mpitrace fabric list
  mpitrace fabric pingpong --size 8,1M --cpu 0,1
  mpitrace fabric bandwidth --operation send --buffers registered --size 1M
  mpitrace fabric datagrams --device iwarp:lo
  mpitrace fabric rails --device 'rxe*'
  mpitrace fabric bandwidth --device 'iwarp:eth0' --listen 7000     on one host
  mpitrace fabric --device 'iwarp:eth0' --connect host1:7000        on the other`,
		ValidArgs:          words,
		DisableFlagParsing: true, // the options are the program's
		RunE: func(c *cobra.Command, args []string) error {
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return c.Help()
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("where is this program: %w", err)
			}
			return runFabric(self, args, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
}

// runFabric runs mpitrace-fabric, which is found from this program, and ends
// with its status.
func runFabric(self string, args []string, stdout, stderr io.Writer) error {
	path, found := libexec.Find(self, fabricProgram)
	if !found {
		return fmt.Errorf("%s is not installed: it belongs into ../libexec/mpitrace from mpitrace (make build makes it)", fabricProgram)
	}
	program := exec.Command(path, args...)
	program.Stdout, program.Stderr = stdout, stderr
	err := program.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exitStatus(exit.ExitCode())
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
