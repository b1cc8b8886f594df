// Package fabric runs the conformance suite of c/fabric: one program for all
// providers, under the sanitizers, with each engine, with and without faults, and
// iwarp with and without a CRC.
package fabric

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

var long = flag.Bool("long", false, "ten million random operations, for each provider")

const root = "../.."

// builds of the suite, by name.
var builds = map[string]struct {
	cc    string
	flags []string
}{
	"plain":   {"clang", []string{"-O2"}},
	"address": {"gcc", []string{"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}},
	"thread":  {"gcc", []string{"-O1", "-fsanitize=thread"}},
}

var programs = map[string]string{}

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "mpitrace-fabric")
	if err == nil {
		err = buildAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// buildAll makes the suite and the tool in each of the builds: all sources are compiled
// once for both, as many at once as there are processors.
func buildAll(dir string) error {
	var work errgroup.Group
	work.SetLimit(runtime.NumCPU())
	inSuite, inTool := map[string][]string{}, map[string][]string{} // objects, by build
	for _, pattern := range []string{"test/fabric/programs/*.c", "c/fabric/*.c", "c/fabric/*/*.c"} {
		sources, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(sources) == 0 {
			return fmt.Errorf("no sources %s (%v)", pattern, err)
		}
		for _, source := range sources {
			for name, b := range builds {
				object := filepath.Join(dir, name+strings.ReplaceAll(source, "/", "_")+".o")
				if !strings.Contains(source, "/fabric/tool/") { // a program of its own
					inSuite[name] = append(inSuite[name], object)
				}
				if strings.HasPrefix(source, filepath.Join(root, "c")) {
					inTool[name] = append(inTool[name], object)
				}
				flags := append([]string{"-c", "-std=gnu11", "-g", "-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Werror"}, b.flags...)
				work.Go(func() error { return mpijob.Compile(b.cc, object, append(flags, source)...) })
			}
		}
	}
	if err := work.Wait(); err != nil {
		return err
	}
	for name, b := range builds {
		programs[name] = filepath.Join(dir, "conformance-"+name)
		toolPrograms[name] = filepath.Join(dir, "mpitrace-fabric-"+name)
		for program, objects := range map[string][]string{programs[name]: inSuite[name], toolPrograms[name]: inTool[name]} {
			if err := mpijob.Compile(b.cc, program, slices.Concat(b.flags, objects, []string{"-lpthread", "-ldl"})...); err != nil {
				return err
			}
		}
	}
	return nil
}

var line = regexp.MustCompile(`^(ok  |FAIL|skip) ([^(:]+?)(?: \(\d+ ms\)|: no (.*))?$`)

// conformance runs the suite. may lists the capabilities that the device may
// lack.
func conformance(t *testing.T, build string, may []string, args ...string) {
	t.Helper()
	if slices.ContainsFunc(args, without) {
		may = append(slices.Clone(may), sharedMemory)
	}
	cmd := exec.Command(programs[build], args...) // its own limits are for lack of progress
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	judge(t, build+" "+strings.Join(args, " "), may, out, complaints.String(), err)
}

// judge makes a test of each line that the suite printed.
func judge(t *testing.T, what string, may []string, out []byte, complaints string, err error) {
	t.Helper()
	ran := 0
	scanner := bufio.NewScanner(bytes.NewReader(out))
	for scanner.Scan() {
		m := line.FindStringSubmatch(scanner.Text())
		if strings.HasPrefix(scanner.Text(), "noticed") {
			t.Logf("%s: %s", what, scanner.Text())
		}
		if m == nil {
			continue
		}
		ran++
		t.Run(m[2], func(t *testing.T) {
			switch {
			case m[1] == "FAIL":
				t.Errorf("%s %q\n%s", what, m[2], complaints)
			case m[1] == "skip" && !contains(may, m[3]):
				t.Errorf("left out, although the device should have it: %s", m[3])
			}
		})
	}
	if ran < 1 || err != nil && !bytes.Contains(out, []byte("FAIL")) {
		t.Errorf("%d tests, %v\n%s\n%s", ran, err, out, complaints)
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// devices of this machine's software, and what each may lack.
var devices = []struct {
	name string
	may  []string
	ways [][]string // arguments besides the engine
}{
	{"shm", []string{"a broken stream"}, [][]string{nil, {"copies=2"}, {withoutPidfd}}},
	{"iwarp:lo", iwarpMay, [][]string{nil, {withoutCRC}}},
}

// iwarpMay is what iwarp may lack: RFC 5040 knows no waiting for a receive, and no
// memory that both map.
var iwarpMay = []string{"waiting for a receive", sharedMemory}

// withoutCRC is how act mode opens iwarp. Datagrams keep their CRC.
const withoutCRC = "crc=0"

// withoutPidfd is shm as before Linux 5.3.
const withoutPidfd = "pidfd=0"

// sharedMemory is lacking, too, where somebody else than the poster carries work out.
const sharedMemory = "memory that peers map"

// without says whether such arguments take shared memory from a device.
func without(arg string) bool {
	return strings.HasPrefix(arg, "faults=") || strings.HasPrefix(arg, "engine=") && arg != "engine=inline"
}

// worth tells which sanitizer has most to see with an engine, and that without a CRC, or
// pidfd_open, one is enough; make test-fabric-long runs all of them with all.
func worth(build, engine string, way []string) bool {
	if slices.Contains(way, withoutCRC) || slices.Contains(way, withoutPidfd) {
		return build == "address" && engine == "inline"
	}
	return build == "plain" || build == map[string]string{"inline": "address", "thread": "thread"}[engine]
}

// TestConformance: the suite on each device in each way, with each engine.
func TestConformance(t *testing.T) {
	for _, d := range devices {
		for _, engine := range []string{"inline", "peer", "thread"} {
			for _, way := range d.ways {
				for build := range builds {
					if !*long && !worth(build, engine, way) {
						continue
					}
					args := append([]string{d.name, "engine=" + engine}, way...)
					switch {
					case build == "thread":
						args = append(args, "threads=1", "operations=200", "queue_pairs=100", "limit=300000")
					case engine == "thread": // two engines that never sleep, on few processors
						args = append(args, "operations=600", "limit=300000")
					case build == "plain":
						args = append(args, "operations=3000", "limit=300000")
					default:
						args = append(args, "operations=1500", "limit=300000")
					}
					t.Run(strings.Join(append(args[:len(args):len(args)], build), " "), func(t *testing.T) {
						conformance(t, build, d.may, args...)
					})
				}
			}
		}
	}
}

// TestFaults: everything goes on working over a device with faults that paths
// have to live with, 100,000 random operations among it; and random operations
// once where a thread moves the data, and once in each other way of the device.
func TestFaults(t *testing.T) {
	const faults, limit = "faults=testdata/rough.fault", "limit=300000"
	for _, d := range devices {
		for build, operations := range map[string]int{"plain": 100_000, "address": 5000} {
			t.Run(d.name+" "+build, func(t *testing.T) {
				conformance(t, build, d.may, d.name, faults, limit, fmt.Sprint("operations=", operations))
			})
		}
		for _, way := range append([][]string{{"engine=thread"}}, d.ways[1:]...) {
			t.Run(strings.Join(append([]string{d.name}, way...), " "), func(t *testing.T) {
				conformance(t, "plain", d.may, append(append([]string{d.name}, way...), faults, limit, "operations=20000", "random operations")...)
			})
		}
	}
}

// scripted are the fault scripts of testdata that each do one thing; the test
// "fault NAME" looks for what comes of it.
var scripted = []string{"corrupt", "break", "die", "lose", "register", "event", "rate", "starve", "drop", "duplicate", "reorder", "delay", "full"}

// TestScriptedFaults: each fault on each device, with and without an engine that
// works beside the caller, and in each other way of the device.
func TestScriptedFaults(t *testing.T) {
	for _, fault := range scripted {
		for _, d := range devices {
			for _, way := range append([][]string{{"engine=inline"}, {"engine=thread"}}, d.ways[1:]...) {
				build := "address"
				if slices.Contains(way, "engine=thread") {
					build = "plain"
				}
				t.Run(strings.Join(append([]string{fault, d.name}, way...), " "), func(t *testing.T) {
					args := slices.Concat([]string{d.name}, way, []string{"faults=testdata/" + fault + ".fault", "limit=300000", "fault " + fault})
					conformance(t, build, d.may, args...)
				})
			}
		}
	}
}

// TestFair: a busy queue pair keeps no datagram of another one waiting for ever:
// among so few that all are looked at in each round, and among more.
func TestFair(t *testing.T) {
	for _, d := range devices {
		for engine, build := range map[string]string{"inline": "address", "peer": "plain", "thread": "plain"} {
			t.Run(d.name+" "+engine, func(t *testing.T) {
				conformance(t, build, d.may, d.name, "engine="+engine, "limit=300000", "datagrams of a quiet queue pair")
			})
		}
	}
}

// TestLong is ten million random operations for each device, in runs that each
// have a seed of their own, with each engine and each way of the device by turn; what
// is reached is told after each.
func TestLong(t *testing.T) {
	if !*long {
		return // asked for by make test-fabric-long
	}
	const all, slice = 10_000_000, 250_000
	for _, d := range devices {
		var ways [][]string
		for _, engine := range []string{"inline", "peer", "thread"} {
			for _, way := range d.ways {
				ways = append(ways, append([]string{"engine=" + engine}, way...))
			}
		}
		for _, faults := range [][]string{nil, {"faults=testdata/rough.fault"}} {
			t.Run(d.name+" "+strings.Join(faults, " "), func(t *testing.T) {
				for done := 0; done < all && !t.Failed(); done += slice {
					way := ways[done/slice%len(ways)]
					args := slices.Concat([]string{d.name}, way, faults, []string{fmt.Sprintf("operations=%d", slice),
						fmt.Sprintf("seed=%d", 1+done/slice), "limit=300000", "random operations"})
					began := time.Now()
					conformance(t, "plain", d.may, args...)
					t.Logf("%d of %d operations; %s: %.0f a second", done+slice, all, strings.Join(way, " "), slice/time.Since(began).Seconds())
				}
			})
		}
	}
}
