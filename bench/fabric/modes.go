package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/stats"
	"github.com/mpitrace/mpitrace/test/hosts"
)

// here and between are where a mode is run.
const (
	here    = false
	between = true
)

// iwarp is what an RDMA device would be asked for first: latency and bandwidth.
func iwarp(b *bench) error {
	err := errors.Join(
		b.table(between, []string{"pingpong", "--device", "iwarp:eth0", "--size", "8,1K,64K,1M"}, "operation", "bytes"),
		b.table(between, []string{"bandwidth", "--device", "iwarp:eth0", "--size", "1K,64K,1M"}, "operation", "bytes"),
		b.table(between, []string{"datagrams", "--device", "iwarp:eth0", "--size", "8,1K,2K,16K"}, "transport", "bytes"))
	published("user-level latency, us: IB 1.2, iWARP 6.6, Myrinet 2.9 (Rashti 2010, Fig 3.1)",
		"user-level both-way bandwidth, MB/s: IB ~3100, iWARP 2200, Myrinet >2300 (Rashti 2010, Fig 3.2)",
		"UD below RC but at 64 KB, where a message is several datagrams (Rashti 2010, Fig 6.3)")
	return err
}

func connections(b *bench) error {
	args := []string{"connections", "--connections", "256", "--size", "8,1K,8K", "--device"}
	err := errors.Join(
		b.table(here, append(slices.Clone(args), "shm"), "connections", "bytes"),
		b.table(between, append(slices.Clone(args), "iwarp:eth0"), "connections", "bytes"))
	published("normalised latency of small messages falls up to 16 connections on IB and iWARP, and is flat above 2 KB; Myrinet: up to 4 (Rashti 2010, 3.4.1: B5, B6)",
		"gains up to 8 KB and 64 connections, most with 8 (Qian 2010, 5.4)")
	return err
}

func registration(b *bench) error {
	err := errors.Join(
		b.table(here, []string{"registration", "--device", "shm"}, "bytes"),
		b.table(here, []string{"registration", "--device", "iwarp:lo"}, "bytes"))
	published("registering costs more than deregistering on iWARP, at all sizes; small buffers on IB less (Rashti 2010, 3.5.1: B9)",
		"these devices pin nothing: mpitrace bench registration pins")
	return err
}

// cache has a benchmark of its own, of which this is the part that the papers
// have, too.
func cache(b *bench) error {
	for _, part := range []string{"reuse", "messages"} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
		cmd := exec.CommandContext(ctx, "go", "run", "./bench/regcache", "-only", part, "-reps", strconv.Itoa(b.rounds))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err := cmd.Run()
		cancel()
		if err != nil {
			return fmt.Errorf("bench/regcache, %s: %w", part, err)
		}
	}
	published("no reuse to full reuse, at most: IB 6.7 at 16 KB, iWARP 2.8 at 32 KB, Myrinet ~2.3 at 1 MB (Rashti 2010, Fig 3.12: B10, B11; mpitrace bench reuse is the same at the MPI level)")
	return nil
}

// linkRate is what the links of the sections rails and rendezvous are paced to:
// slow enough for the processors not to be the limit.
const linkRate = "1gbit"

func rails(b *bench) error {
	if err := b.pace(); err != nil {
		return err
	}
	args := []string{"rails", "--device", "iwarp:eth0,iwarp:eth1", "--size", "512,4K,64K,1M"}
	err := b.table(between, args, "rails", "bytes")
	published("both-way put, MB/s: one rail 670, two 1332; latency of 4 bytes 2 to 2.77 us whatever the rails (Qian 2010, 3.3)")
	return errors.Join(err, b.hosts.Unpace())
}

func memory(b *bench) error {
	err := errors.Join(
		b.table(here, []string{"memory", "--connections", "512", "--device", "shm"}, "transport"),
		b.table(between, []string{"memory", "--connections", "512", "--device", "iwarp:eth0"}, "transport"))
	published("some 200 pages for each RC connection of a process: 95 receive buffers of 8 KB (Rashti 2010, 6.6.2)")
	return err
}

// rendezvous is about who sends a FIN while its receiver computes: nobody, or an
// engine thread. The threads of both sides have the processor of the sender, which
// yields while it waits: so two processors are enough.
func rendezvous(b *bench) error {
	inside := []string{"rendezvous", "--device", "shm", "--buffers", "registered", "--engine"}
	outside := []string{"rendezvous", "--device", "iwarp:eth0", "--engine"}
	engines := [][]string{{"inline"}, {"thread", "--engine-cpu", "0"}}
	for _, engine := range engines {
		if err := b.table(here, slices.Concat(inside, engine), "receiver", "bytes"); err != nil {
			return err
		}
	}
	if err := b.pace(); err != nil {
		return err
	}
	var err error
	for _, engine := range engines {
		err = errors.Join(err, b.table(between, slices.Concat(outside, engine), "receiver", "bytes"))
	}
	published("a fenced FIN is named as future work, without figures (Sur 2006)")
	return errors.Join(err, b.hosts.Unpace())
}

func published(texts ...string) {
	for _, text := range texts {
		fmt.Println("  published:", text)
	}
}

// ---- running modes ----

// row is one of a table of mpitrace-fabric.
type row map[string]any

func (r row) number(key string) float64 {
	value, _ := r[key].(float64) // what a test of the program says it is
	return value
}

func (r row) text(key string) string {
	if value, is := r[key].(float64); is {
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	return fmt.Sprint(r[key])
}

func decode(out []byte) ([]row, []string, error) {
	var table struct{ Rows []json.RawMessage }
	if err := json.Unmarshal(out, &table); err != nil {
		return nil, nil, fmt.Errorf("%w in %q", err, out)
	}
	var rows []row
	var keys []string
	for i, raw := range table.Rows {
		var r row
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, nil, fmt.Errorf("%w in %q", err, raw)
		}
		rows = append(rows, r)
		if i == 0 {
			keys = keysOf(raw)
		}
	}
	return rows, keys, nil
}

// keysOf are the keys of a flat object, in their order.
func keysOf(raw []byte) []string {
	var keys []string
	d := json.NewDecoder(bytes.NewReader(raw))
	for i := 0; ; i++ {
		token, err := d.Token()
		if err != nil {
			return keys
		}
		if key, is := token.(string); is && i%2 == 1 {
			keys = append(keys, key)
		}
	}
}

// rowsOf runs mpitrace-fabric with --json.
func rowsOf(ctx context.Context, args ...string) ([]row, error) {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if err != nil {
		return nil, fmt.Errorf("%q: %w", args, err)
	}
	rows, _, err := decode(out)
	return rows, err
}

func (b *bench) makeHosts() error {
	if b.hosts != nil {
		return nil
	}
	made, err := hosts.Make(b.scratch, 2)
	if err != nil {
		return err
	}
	b.hosts = made
	return made.AddNetwork()
}

// pace makes the links of the two hosts slow, until Unpace.
func (b *bench) pace() error {
	if err := b.makeHosts(); err != nil {
		return err
	}
	fmt.Printf("links between the hosts paced to %s\n", linkRate)
	return b.hosts.Pace(linkRate)
}

// own are the options that each of two hosts has for itself.
func own(args []string) []string {
	var words []string
	for _, option := range []string{"--device", "--engine", "--engine-cpu"} {
		if i := slices.Index(args, option); i >= 0 {
			words = append(words, args[i:i+2]...)
		}
	}
	return words
}

// once runs a mode of this host, or between two.
func (b *bench) once(twoHosts bool, args []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	words := append([]string{b.tool}, args...)
	words = append(words, "--json")
	if b.quick {
		words = append(words, "--iterations", "20", "--duration", "20", "--connections", "16")
	}
	if !twoHosts {
		return exec.CommandContext(ctx, words[0], append(words[1:], "--cpu", "0,1")...).Output()
	}
	if err := b.makeHosts(); err != nil {
		return nil, err
	}
	const address = "10.89.7.1:7701"
	words = b.hosts.On(0, append(words, "--cpu", "0", "--listen", address)...)
	other := b.hosts.On(1, append([]string{b.tool, "--cpu", "1", "--connect", address}, own(args)...)...)
	second := exec.CommandContext(ctx, other[0], other[1:]...)
	second.Stderr = os.Stderr
	if err := second.Start(); err != nil {
		return nil, fmt.Errorf("%q: %w", other, err)
	}
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).Output()
	if err != nil {
		cancel() // nobody is waited for then
	}
	return out, errors.Join(err, second.Wait())
}

// table runs a mode so many rounds and prints medians of its numbers; by names the
// columns that tell rows apart.
func (b *bench) table(twoHosts bool, args []string, by ...string) error {
	var all [][]row
	var keys []string
	for range b.rounds {
		out, err := b.once(twoHosts, args)
		if err != nil {
			return fmt.Errorf("%q: %w", args, err)
		}
		rows, names, err := decode(out)
		if err != nil {
			return err
		}
		all, keys = append(all, rows), names
	}
	fmt.Printf("  %s, median of %d\n", strings.Join(args, " "), b.rounds)
	for _, line := range medians(all, keys, by) {
		fmt.Println("  " + line)
	}
	return nil
}

// medians are the lines of a table, the first of which has its titles.
func medians(rounds [][]row, keys, by []string) []string {
	var lines []string
	line := func(cell func(key string) string) {
		text := ""
		for _, key := range keys {
			text += fmt.Sprintf(" %*s", max(len(key), 14), cell(key))
		}
		lines = append(lines, text)
	}
	line(func(key string) string { return key })
	for i := range rounds[0] {
		line(func(key string) string {
			if slices.Contains(by, key) {
				return rounds[0][i].text(key)
			}
			var values []float64
			for _, rows := range rounds {
				values = append(values, rows[i].number(key))
			}
			return strconv.FormatFloat(stats.Median(values), 'f', 3, 64)
		})
	}
	return lines
}
