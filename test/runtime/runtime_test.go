package runtime_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestCalls: the stand-ins see the calls of the application, wherever it makes
// them, also while nothing is measured, and no call that the library makes or
// that a forked child does.
func TestCalls(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		const name = "a|b;c%7C d=%" // nothing on the way may take it apart
		policy := filepath.Join(t.TempDir(), "policy.json")
		text := fmt.Sprintf(`{"schema": 1, "mode": "act", "rules": [{"when": {"communicator": %q}, "use": {"eager": "copy"}}]}`, name)
		if err := os.WriteFile(policy, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got := job{
			m: m, options: []string{"--act=" + policy, "--act-runtime", counter(t, m)},
			program: []string{made(t, m, "calls"), filepath.Join(t.TempDir(), "file")},
		}.run(t)
		var want []string
		for rank := range 2 {
			want = append(want, fmt.Sprintf("rank %d of 2: 11 sends, 11 receives, 23 ranks asked, rule.0.when.communicator=%s", rank, name))
		}
		counts := slices.DeleteFunc(slices.Clone(got.ours), func(line string) bool { return !strings.HasPrefix(line, "rank ") })
		if !slices.Equal(counts, want) || got.status != 0 || !slices.Equal(got.out, []string{"rank 0 done", "rank 1 done"}) {
			t.Errorf("status %d, counts %q, want %q\n%q\n%s", got.status, counts, want, got.out, got.err)
		}
		if stopped := "no memory for an array of requests"; strings.Count(got.err, stopped) != 2 {
			t.Errorf("the measurement of both ranks was to stop with %q:\n%s", stopped, got.err)
		}
		if len(got.act) != 1 || !got.act[0].Act || got.act[0].Ranks != 2 || len(got.act[0].Policy) != 32 {
			t.Errorf("verdicts %+v", got.act)
		}
	})
}

// TestObserve: without act mode nothing of it is in the process; with it, it is,
// and the program's signals are what they were.
func TestObserve(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		spy := made(t, m, "spy", "-fPIC", "-shared", "-ldl")
		program := []string{made(t, m, "state")}
		native := job{m: m, program: program}.run(t)
		for name, c := range map[string]struct {
			options []string
			env     []string
			loads   bool
			says    string // at the end
		}{
			"observe":  {options: []string{}},
			"mode":     {options: []string{"--mode", "observe"}, env: []string{"MPITRACE_ACT=auto"}},
			"policy":   {options: []string{"--act=advise"}, says: "technique"},
			"advise":   {options: []string{"--mode", "advise"}, says: "technique"},
			"act":      {options: []string{"--act"}, loads: true},
			"variable": {options: []string{}, env: []string{"MPITRACE_ACT=auto"}, loads: true},
			"cache":    {options: []string{"--act=cache=on", "--memory-monitor"}, loads: true},
		} {
			t.Run(name, func(t *testing.T) {
				env := append(c.env, "UCX_MEM_EVENTS=no") // else UCX replaces dlopen in all libraries, past the spy
				got := job{m: m, options: c.options, env: env, preload: []string{spy}, program: program}.run(t)
				want := slices.Clone(native.out)
				loads := 0
				if c.loads {
					loads = 2
					for i := range want {
						want[i] = strings.Replace(want[i], ": mapped 0", ": mapped 1", 1)
					}
				}
				if got.status != 0 || !slices.Equal(got.out, want) || len(got.ours) != 0 {
					t.Errorf("status %d, output\n%s\nwant\n%s\n%s", got.status, strings.Join(got.out, "\n"), strings.Join(want, "\n"), got.err)
				}
				if n := strings.Count(got.err, "spy: dlopen"); n < loads || n > 0 && !c.loads {
					t.Errorf("%d libraries loaded\n%s", n, got.err)
				}
				if n := strings.Count(got.err, "spy: socket"); n < loads || n > 0 && !c.loads {
					t.Errorf("%d sockets opened\n%s", n, got.err)
				}
				if (len(got.act) > 0) != c.loads {
					t.Errorf("verdicts %+v", got.act)
				}
				if !strings.Contains(got.err, c.says) {
					t.Errorf("nothing of what it %s:\n%s", c.says, got.err)
				}
			})
		}
	})
}

// TestSignals: signals that the program has blocked in all its threads wait for
// the program: no thread of ours has one open, also none of Go, where
// registrations are kept.
func TestSignals(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		program := []string{made(t, m, "signals")}
		native := job{m: m, program: program}.run(t)
		if all := strings.Join(native.out, "\n"); strings.Count(all, ": 0 of 240 signals missing, 0 astray, ") != 2 || len(native.out) != 2 {
			t.Fatalf("without mpitrace it says\n%s\n%s", all, native.err)
		}
		for name, options := range map[string][]string{
			"observe":            {},
			"act":                {"--act"},
			"act over iWARP":     {"--act=device=iwarp:lo"},
			"act with the cache": {"--act=cache=on", "--memory-monitor"},
		} {
			got := job{m: m, options: options, program: program}.run(t)
			if got.status != 0 || !slices.Equal(got.out, native.out) || len(got.ours) > 0 || len(got.act) != strings.Count(name, "act") {
				t.Errorf("%s: status %d, verdicts %+v, output\n%s\n%s", name, got.status, got.act, strings.Join(got.out, "\n"), got.err)
			}
			if name == "act with the cache" {
				kept(t, got, 2)
			}
		}
	})
}

// TestSlowAddresses: addresses that lead to somebody who says nothing do not keep a rank
// from the one that answers.
func TestSlowAddresses(t *testing.T) {
	var silent []string
	for range 4 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		silent = append(silent, l.Addr().String())
	}
	each(t, func(t *testing.T, m mpijob.MPI) {
		got := job{
			m: m, options: []string{"--act", "--act-wait", "10"}, program: []string{made(t, m, "state")},
			rank1: "export MPITRACE_ACT_RENDEZVOUS=${MPITRACE_ACT_RENDEZVOUS%@*}@" + strings.Join(silent, ",") + ",${MPITRACE_ACT_RENDEZVOUS#*@}",
		}.run(t)
		if got.status != 0 || len(got.ours) != 0 || len(got.act) != 1 || !got.act[0].Act {
			t.Errorf("status %d, lines %q, verdicts %+v", got.status, got.ours, got.act)
		}
	})
}

// TestUnreceived: messages that nobody receives are said to be dropped, once, by
// the rank that they were sent to, and the job ends, long and synchronous ones and
// those of communicators that are gone among them. One that was matched, and then
// not received, has its sender give up.
func TestUnreceived(t *testing.T) {
	const dropped = "rank 1: MPI_Finalize dropped %d messages that were sent to this rank and that it did not receive"
	each(t, func(t *testing.T, m mpijob.MPI) {
		program := made(t, m, "unreceived")
		for _, c := range []struct{ what, want string }{
			{"long", fmt.Sprintf(dropped, 1)},
			{"many", fmt.Sprintf(dropped, 300)},
			{"matched", "rank 0: MPI_Finalize gave up after 10 seconds with 1 obligations to other ranks left"},
		} {
			for _, options := range []string{"--act", "--act=rndv=write", "--act=rndv=receiver", "--act=device=iwarp:lo"} {
				if c.what == "matched" && options != "--act" {
					continue // ten seconds each
				}
				t.Run(c.what+" "+options, func(t *testing.T) {
					got := job{m: m, options: []string{options}, program: []string{program, c.what}}.run(t)
					if got.status != 0 || !slices.Equal(got.out, []string{"0: done", "1: done"}) || !slices.Equal(got.ours, []string{c.want}) {
						t.Errorf("status %d, output %q, lines %q\n%s", got.status, got.out, got.ours, got.err)
					}
				})
			}
		}
	})
}

// TestRefused: whatever keeps one rank from acting, all ranks observe, one line
// names the rank and the reason, and the job is unharmed. The rank with the wrong
// secret has to come while the other still waits.
func TestRefused(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		program := []string{made(t, m, "state")}
		count := counter(t, m)
		other := made(t, m, "spy", "-fPIC", "-shared", "-ldl")
		shortage := made(t, m, "shortage", "-fPIC", "-shared", "-ldl")
		gpu := gpuDriver(t, "libcuda.so.1")
		tool := at("tool." + m.Name)
		if err := mpijob.Compile(m.CC, tool, "-fPIC", "-shared", "../programs/tool_c.c"); err != nil {
			t.Fatal(err)
		}
		host, _ := os.Hostname()
		rank1 := "rank 1 on " + host
		for name, c := range map[string]struct {
			options []string
			rank1   string
			preload []string
			env     []string
			want    []string // parts of the line
		}{
			"no runtime":    {options: []string{"--act-runtime", "/nonexistent/rt.so"}, want: []string{"rank ", "/nonexistent/rt.so is not a library that can be read"}},
			"not ours":      {options: []string{"--act-runtime", other}, want: []string{"rank ", "mt_act_start"}},
			"one has none":  {rank1: "export MPITRACE_ACT_RUNTIME=/nonexistent/rt.so", want: []string{rank1 + ": /nonexistent/rt.so is not"}},
			"other runtime": {rank1: "export MPITRACE_ACT_RUNTIME=" + count, want: []string{"libmpishim-rt.so is ", rank1}},
			"other policy":  {rank1: "export MPITRACE_ACT_POLICY='policy=1|hash=beef|'", want: []string{"the policy is ", "beef for " + rank1}},
			"address space": {rank1: "ulimit -v 1500000", want: []string{rank1 + ": no 2048 MiB of address space: raise ulimit -v"}},
			"file size":     {rank1: "ulimit -f 12000", want: []string{rank1 + ": files of at most ", " KiB, 16384 are needed: raise ulimit -f"}},
			"descriptors":   {rank1: "export NOFILE=libmpishim.so LD_PRELOAD=$LD_PRELOAD:" + shortage, want: []string{rank1 + ": only 0 of 16 files could be opened (Too many open files): raise ulimit -n"}},
			"no shim":       {options: []string{"--act-wait", "2"}, rank1: "unset LD_PRELOAD", want: []string{"rank 1 of 2 did not report within 2s"}},
			"other mode":    {options: []string{"--act-wait", "2"}, rank1: "export MPITRACE_MODE=observe", want: []string{"rank 1 of 2 did not report within 2s"}},
			"wrong secret":  {options: []string{"--act-wait", "10"}, rank1: "export MPITRACE_ACT_SECRET=guess", want: []string{"1 connections to the rendezvous were refused: wrong secret", "rank 1 of 2 did not report within 10s", rank1 + " has no answer from mpitrace run"}},
			"unreachable":   {options: []string{"--act-wait", "2"}, rank1: "export MPITRACE_ACT_RENDEZVOUS=id@127.0.0.1:1,[::1]:1,nonsense", want: []string{"rank 1 of 2 did not report", rank1 + " cannot reach mpitrace run at @127.0.0.1:1"}},
			"tool":          {preload: []string{tool}, want: []string{tool + " defines MPI functions too"}},
			"gpu":           {preload: []string{gpu}, want: []string{gpu + " is loaded, and messages may lie in the memory of a GPU: if none does, say so by gpu=ignore"}},
			"start":         {options: []string{"--act-runtime", count}, env: []string{"COUNT_REFUSE=1"}, want: []string{"the runtime did not start: it was told to refuse"}},
			"start alone":   {rank1: "export NOTHREAD=libmpishim-rt.so LD_PRELOAD=$LD_PRELOAD:" + shortage, want: []string{"the runtime did not start: rank 1: the engine's thread could not be started: raise ulimit -u or -v"}},
			"start nowhere": {options: []string{"--act=device=nonesuch"}, want: []string{"the runtime did not start: rank 0: there is no device nonesuch; there are: "}},
			"threads":       {rank1: "export NOTHREAD=libmpishim.so LD_PRELOAD=$LD_PRELOAD:" + shortage, want: []string{rank1 + ": only 0 of 8 threads could be started (Resource temporarily unavailable): raise ulimit -u or -v"}},
		} {
			t.Run(name, func(t *testing.T) {
				got := job{m: m, options: append([]string{"--act"}, c.options...), env: c.env, rank1: c.rank1, preload: c.preload, program: program}.run(t)
				all := strings.Join(got.ours, "\n")
				for _, part := range c.want {
					if !strings.Contains(all, part) {
						t.Errorf("lines %q, want %q", got.ours, part)
					}
				}
				if off := strings.Count(all, "act mode is off, the job is only observed: "); off == 0 || off > len(c.want) {
					t.Errorf("lines %q say so %d times", got.ours, off)
				}
				sums := slices.DeleteFunc(slices.Clone(got.out), func(line string) bool { return !strings.HasSuffix(line, ": sum 2") })
				if got.status != 0 || len(sums) != 2 || !got.observation {
					t.Errorf("status %d, output %q, result %v\n%s", got.status, got.out, got.observation, got.err)
				}
				if !strings.HasPrefix(name, "start") && (len(got.act) != 1 || got.act[0].Act || got.act[0].Reason == "") {
					t.Errorf("verdicts %+v", got.act)
				}
			})
		}
	})
}

// gpuDriver is a library that passes for the driver of a GPU.
func gpuDriver(t *testing.T, name string) string {
	t.Helper()
	path := at(name)
	if err := mpijob.Compile("cc", path, "-fPIC", "-shared", "testdata/gpu.c"); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGPU: the user says that no message lies in the memory of a GPU.
func TestGPU(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		got := job{m: m, options: []string{"--act=gpu=ignore"}, preload: []string{gpuDriver(t, "libcuda.so.1")}, program: []string{made(t, m, "state")}}.run(t)
		if got.status != 0 || len(got.act) != 1 || !got.act[0].Act {
			t.Errorf("status %d, verdicts %+v\n%s", got.status, got.act, got.err)
		}
	})
}

// TestNoGPU: a driver that the MPI library brings along, on a machine without its
// device, is no reason not to act.
func TestNoGPU(t *testing.T) {
	_, err := os.Stat("/dev/kfd")
	device := err == nil
	each(t, func(t *testing.T, m mpijob.MPI) {
		got := job{m: m, options: []string{"--act"}, preload: []string{gpuDriver(t, "libhsa-runtime64.so.1")}, program: []string{made(t, m, "state")}}.run(t)
		if got.status != 0 || len(got.act) != 1 || got.act[0].Act == device {
			t.Errorf("/dev/kfd: %v, status %d, verdicts %+v\n%s", device, got.status, got.act, got.err)
		}
	})
}

// TestFaultTolerant: a job that goes on after failures is only observed.
func TestFaultTolerant(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		got := job{m: m, options: []string{"--act"}, env: []string{"OMPI_MCA_mpi_ft_enable=1"}, program: []string{made(t, m, "state")}}.run(t)
		version, err := exec.Command(m.Launcher, "--version").Output()
		if err != nil {
			t.Fatal(err)
		}
		able := strings.Contains(string(version), "Open MPI) ") && !strings.Contains(string(version), "Open MPI) 4.")
		const want = "the job goes on after failures (--with-ft, mpi_ft_enable), of which messages of ours know nothing"
		if got.status != 0 || len(got.act) != 1 || got.act[0].Act == able || strings.Contains(strings.Join(got.ours, "\n"), want) != able {
			t.Errorf("it could: %v; status %d, verdicts %+v, lines %q\n%s", able, got.status, got.act, got.ours, got.err)
		}
	})
}

// ledger is what act-WORLD-RANK.json holds.
type ledger struct {
	Schema      int
	World       string
	Rank, Ranks int
	Policy      []string
	CacheOff    string  `json:"cache_off"`
	CacheWatch  string  `json:"cache_watch"`
	ReuseOff    string  `json:"reuse_off"`
	LookUpNS    float64 `json:"look_up_ns"`
	ReuseCosts  []struct {
		From   uint64
		CopyNS float64 `json:"copy_ns"`
	} `json:"reuse_costs"`
	Counts    map[string]int64
	Decisions []struct {
		Communicator, Newcomer string
		From, To               uint64
		Pairs, Messages        uint64
		MeasuredNS             float64 `json:"measured_ns"`
		NewcomerMessages       uint64  `json:"newcomer_messages"`
		RunnerUpNS             float64 `json:"runner_up_ns"`
	}
}

// ledgers reads those of a result, by "WORLD RANK".
func ledgers(t *testing.T, result string) map[string]ledger {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(result, "act-*.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]ledger{}
	for _, path := range files {
		var file ledger
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &file)
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		all[fmt.Sprint(file.World, " ", file.Rank)] = file
	}
	if len(all) != len(files) {
		t.Errorf("%d files of %d ranks", len(files), len(all))
	}
	return all
}

// TestLedger: each rank writes down what it has carried.
func TestLedger(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		got := job{m: m, options: []string{"--act=eager-limit=8K"}, program: []string{made(t, m, "calls"), filepath.Join(t.TempDir(), "file")}}.run(t)
		all := ledgers(t, got.result)
		if len(all) != 2 || len(got.act) != 1 {
			t.Fatalf("ledgers %+v, verdicts %+v\n%s", all, got.act, got.err)
		}
		for rank := range 2 {
			file := all[fmt.Sprint(got.act[0].World, " ", rank)]
			if file.Schema != 1 || file.Rank != rank || file.Ranks != 2 || !slices.Contains(file.Policy, "eager_limit=8192") ||
				file.Counts["eager_messages"] != 11 || file.Counts["eager_bytes"] != 44 || file.Counts["rendezvous_messages"] != 0 {
				t.Errorf("rank %d: %+v\n%s", rank, file, got.err)
			}
		}
	})
}

// TestLedgerText: whatever a policy names comes out as it went in.
func TestLedgerText(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		const name = "a\"b\\c é %"
		policy := filepath.Join(t.TempDir(), "policy.json")
		text := fmt.Sprintf(`{"schema": 1, "mode": "act", "rules": [{"when": {"communicator": %q}, "use": {"eager": "copy"}}]}`, name)
		if err := os.WriteFile(policy, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got := job{m: m, options: []string{"--act=" + policy}, program: []string{made(t, m, "state")}}.run(t)
		all := ledgers(t, got.result)
		for _, file := range all {
			if !slices.Contains(file.Policy, "rule.0.when.communicator="+name) {
				t.Errorf("%+v", file)
			}
		}
		if len(all) != 2 {
			t.Errorf("%d ledgers\n%s", len(all), got.err)
		}
	})
}

// TestAlone: without mpitrace run there is nobody to report to; a rank alone in
// the world needs nobody.
func TestAlone(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		line := job{m: m, env: []string{"MPITRACE_ACT=auto", "MPITRACE_SEGMENT_DIR=" + t.TempDir()}, preload: []string{at("libmpishim.so")}, program: []string{made(t, m, "state")}}.run(t)
		if line.status != 0 || strings.Count(line.err, "MPITRACE_ACT is read by mpitrace run, which did not start this job") != 1 {
			t.Errorf("a policy that nobody read: status %d\n%s", line.status, line.err)
		}
		for ranks, want := range map[int]int{1: 0, 2: 2} {
			got := job{m: m, ranks: ranks, env: []string{"MPITRACE_MODE=act", "MPITRACE_SEGMENT_DIR=" + t.TempDir()}, preload: []string{at("libmpishim.so")}, program: []string{made(t, m, "state")}}.run(t)
			if n := strings.Count(got.err, "start the job by mpitrace run, where its ranks report"); n != want || got.status != 0 {
				t.Errorf("%d ranks: status %d, said %d times, want %d\n%s", ranks, got.status, n, want, got.err)
			}
			if mapped := slices.Contains(got.out, "0: mapped 1"); mapped != (ranks == 1) {
				t.Errorf("%d ranks: runtime loaded: %v\n%s", ranks, mapped, got.err)
			}
		}
	})
}

// TestWorlds: one mpitrace run over a script: two jobs at once and one after
// them, whose ranks all leave a ledger, and a job of two programs.
func TestWorlds(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		program, dir := made(t, m, "state"), t.TempDir()
		launch := func(words ...string) string {
			return strings.Join(mpijob.Job{MPI: m, Ranks: 2, Argv: words}.Command(), " ")
		}
		script := filepath.Join(dir, "job.sh")
		text := strings.Join([]string{"#!/bin/sh", launch(program) + " &", launch(program), "wait", launch(program)}, "\n")
		if err := os.WriteFile(script, []byte(text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		result := filepath.Join(dir, "out")
		run := []string{at("mpitrace"), "run", "--act", "--shim", at("libmpishim.so"), "-o", result, "--"}
		got := end(t, dir, result, mpijob.Environ(), append(run, script))
		if got.status != 0 || len(got.act) != 3 || strings.Count(strings.Join(got.out, "\n"), "mapped 1") != 6 {
			t.Errorf("script: status %d, verdicts %+v\n%q\n%s", got.status, got.act, got.out, got.err)
		}
		left := ledgers(t, result)
		for _, world := range got.act {
			for rank := range 2 {
				if file := left[fmt.Sprint(world.World, " ", rank)]; file.Ranks != 2 {
					t.Errorf("rank %d of world %s left %+v", rank, world.World, file)
				}
			}
		}
		if len(left) != 6 {
			t.Errorf("script: ledgers %+v of 6 ranks", left)
		}
		two := append(mpijob.Job{MPI: m, Ranks: 1, Argv: []string{program}}.Command(), ":", "-n", "1", program)
		result = filepath.Join(dir, "two")
		run[6] = result
		got = end(t, dir, result, mpijob.Environ(), append(run, two...))
		if got.status != 0 || len(got.act) != 1 || got.act[0].Ranks != 2 || !got.act[0].Act {
			t.Errorf("two programs: status %d, verdicts %+v\n%q\n%s", got.status, got.act, got.out, got.err)
		}
	})
}

// TestLimits: whatever address space the ranks have, and however large a file may
// be, they act or observe, and come to their end.
func TestLimits(t *testing.T) {
	m := mpijob.All[0]
	need(t, m)
	acted := map[bool]int{}
	for _, limit := range []string{"-v 600000", "-v 2400000", "-v 3000000", "-v 4000000", "-v 16000000", "-f 12000", "-f 40000"} {
		got := job{m: m, options: []string{"--act"}, rank1: "ulimit " + limit, program: []string{made(t, m, "state")}}.run(t)
		if got.status != 0 || !slices.Contains(got.out, "1: sum 2") || len(got.act) != 1 {
			t.Errorf("%s: status %d, verdicts %+v\n%s", limit, got.status, got.act, got.err)
			continue
		}
		acted[got.act[0].Act && len(got.ours) == 0]++
	}
	if acted[true] == 0 || acted[false] == 0 {
		t.Errorf("acted %v: the test does not try both", acted)
	}
}

// TestArenas: the address space that ranks share over shared memory is memory only where
// it is used: also of a process that is dumped, or that locks all it has.
func TestArenas(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		for _, when := range []string{"current", "future"} {
			got := job{m: m, options: []string{"--act=device=shm"}, program: []string{made(t, m, "arenas"), when}}.run(t)
			if strings.Contains(got.out[0], "locked 0") {
				mpijob.Need(t, mpijob.Missing("the right to lock all memory", "run this test as root"))
			}
			if want := "arenas yes, 0 dumped, locked 1, memory little, 3 of 3 right"; got.status != 0 || !slices.Equal(got.out, []string{"0: " + want, "1: " + want}) {
				t.Errorf("%s: status %d, output %q\n%s", when, got.status, got.out, got.err)
			}
		}
	})
}
