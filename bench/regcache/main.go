// Command regcache measures the registration cache (docs/regcache.md): what a
// hit costs in the table in front and in the cache, what registering costs by
// size, what the cache saves with all, half or none of the buffers reused, how
// often a buffer is found while others come and go, and how good eviction is:
//
//	go run ./bench/regcache
//	go run ./bench/regcache --save
//
// Registering is mlock, the part of it that needs no device, but for messages,
// which go over devices of the fabric. What is compared
// is measured in turn, bound to one processor; figures are lower quartiles of the repetitions.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type options struct {
	repetitions int
	processor   int
	only        string
	save        bool
	machine     string
}

// report collects what is printed, and every single figure.
type report struct{ text, raw strings.Builder }

func (r *report) say(format string, args ...any) {
	line := fmt.Sprintf(format+"\n", args...)
	fmt.Print(line)
	r.text.WriteString(line)
}

// figure keeps a raw figure.
func (r *report) figure(part, what string, value float64) {
	fmt.Fprintf(&r.raw, "%s, %s: %.4g\n", part, what, value)
}

// part is one table.
type part struct {
	name string
	run  func(options, *report) error
}

var parts = []part{
	{"hit", measureHit}, {"temporary", measureTemporary}, {"core", measureCore},
	{"register", measureRegister}, {"reuse", measureReuse}, {"messages", measureMessages}, {"evict", measureEviction},
}

func main() {
	var o options
	flag.IntVar(&o.repetitions, "reps", 15, "repetitions")
	flag.IntVar(&o.processor, "processor", runtime.NumCPU()-1, "processor to be bound to")
	flag.StringVar(&o.only, "only", "", "one part: hit, temporary, core, register, reuse, messages, evict")
	flag.BoolVar(&o.save, "save", false, "write table and raw figures into bench/results/DATE-MACHINE/")
	flag.StringVar(&o.machine, "machine", "", "name of this machine for --save (default: its processor)")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "regcache:", err)
		os.Exit(2)
	}
}

func run(o options) error {
	if flag.NArg() > 0 || o.repetitions < 1 {
		return fmt.Errorf("unexpected argument, or no repetitions; see --help")
	}
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(o.processor)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("bind to processor %d: %w", o.processor, err)
	}
	var r report
	r.say("Registration cache, %s", time.Now().UTC().Format("2006-01-02 15:04 UTC"))
	r.say("%s, load average at the start %s; lower quartile of %d repetitions", processor(), load(), o.repetitions)
	ran := false
	for _, p := range parts {
		if o.only != "" && o.only != p.name {
			continue
		}
		ran = true
		r.say("")
		if err := p.run(o, &r); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if !ran {
		return fmt.Errorf("no part %q; see --help", o.only)
	}
	r.say("\nload average at the end %s", load())
	if o.save {
		return save(o, &r)
	}
	return nil
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) == 0 {
		return "unknown"
	}
	return fields[0]
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	model := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(text)
	if model == nil {
		return runtime.GOARCH
	}
	return string(model[1])
}

func save(o options, r *report) error {
	machine := o.machine
	if machine == "" {
		machine = strings.ToLower(processor())
	}
	machine = strings.Trim(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(machine, "-"), "-")
	dir := filepath.Join("bench/results", time.Now().UTC().Format("2006-01-02")+"-"+machine)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("folder for the figures: %w", err)
	}
	for name, text := range map[string]string{"regcache.txt": r.text.String(), "regcache-raw.txt": r.raw.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("save the figures: %w", err)
		}
	}
	fmt.Println("saved in", dir)
	return nil
}
