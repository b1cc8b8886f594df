package main

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// written is the path of a file with this text.
func written(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPolicyCommand goes through the forms and the refusals.
func TestPolicyCommand(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string { return written(t, dir, name, text) }
	plain := file("plain.json", `{"schema": 1, "ring": "1M"}`)
	good := file("good.json", `{"schema": 1, "mode": "act", "eager": "reuse"}`)
	bad := file("bad.json", "{\"schema\": 1,\n \"eager\": \"resue\", \"x\": 1}")
	site := file("site.json", `{"schema": 1, "transport": "ud-first", "ring": "1M"}`)
	none := filepath.Join(dir, "none.json")
	for _, test := range []struct {
		env, args string
		status    int
		stdout    string
		stderr    string
	}{
		{"", "check --site " + none + " " + good, 0, "", ""},
		{"", "check --site " + none + " eager=reuse,rndv=read-event,eager-limit=16K", 0, "", ""},
		{"", "check --site " + none + " auto", 0, "", ""},
		{"", "check --site " + none + " " + bad, 1, bad + ":2:11: eager: \"resue\" is not one of auto, copy, reuse: did you mean reuse?\n" + bad + ":2:20: x: no such name", ""},
		{"", "check --site " + none + " eagre=copy", 1, "command line:1:1: eagre: no such setting: did you mean eager", ""},
		{"", "check --site " + site + " " + good, 1, good + ":1:39: eager: eager=reuse needs transport=rc", ""},
		{"", "check --site " + bad + " " + good, 1, bad + ":2:11", ""},
		{"", "check --site " + none + " " + none, 2, "", "none.json: no such file"},
		{"", "check", 2, "", "accepts 1 arg"},
		{"", "show --site " + site, 0, "ring           1M        " + site, ""},
		{"", "show --site " + none + " " + plain, 0, "mode           act     " + plain, ""},
		{"", "show --site " + site, 0, "mode           observe   built-in", ""},
		{"eager-copy", "show --site " + site + " " + good, 0, "eager          copy      MPITRACE_ACT", ""},
		{"eager-copy", "show --site " + none + " --lines rndv=write", 0, "eager=copy+reuse\nrendezvous=write\n", ""},
		{"eager-copy", "show --site " + none + " --json", 0, "\"eager\": \"copy\"", ""},
		{none, "show --site " + none + " rndv=write", 0, "rendezvous     write   command line", ""},
		{none, "show --site " + none + " " + good, 2, "", "none.json: no such file"},
		{"eager-cpy", "show --site " + none, 2, "", "mpitrace: MPITRACE_ACT:1:1: eager-cpy: no such setting: did you mean eager-copy?"},
		{"x,y", "show --site " + none, 2, "", "\nmpitrace: MPITRACE_ACT:1:3: y: no such setting"},
		{"", "show --json --lines", 2, "", "choose one of --json, --lines"},
	} {
		t.Setenv("MPITRACE_ACT", test.env)
		status, stdout, stderr := runs(append([]string{"policy"}, strings.Fields(test.args)...)...)
		if status != test.status || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) ||
			test.stdout == "" && stdout != "" || test.stderr == "" && stderr != "" {
			t.Errorf("%s: status %d, want %d:\n%s%s", test.args, status, test.status, stdout, stderr)
		}
	}
}

// TestRunPolicy: a policy that is wrong, wherever it was given, is refused with its
// place and what would be right, and nothing is started.
func TestRunPolicy(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := func(name, text string) string { return written(t, t.TempDir(), name, text) }
	spelt := file("spelt.json", "{\"schema\": 1,\n \"eager\": \"resue\"}")
	typed := file("typed.json", "{\"schema\": 1,\n \"mode\": \"act\",\n \"eager_limit\": true}")
	apart := file("apart.json", "{\"schema\": 1,\n \"eager\": \"reuse\",\n \"transport\": \"ud-first\"}")
	none := filepath.Join(dir, "none.json")
	for _, test := range []struct{ option, env, want string }{
		{"eagre=copy", "", "command line:1:1: eagre: no such setting: did you mean eager?"},
		{"eager=resue", "", `command line:1:1: eager: "resue" is not one of auto, copy, reuse: did you mean reuse?`},
		{"rndv=read,eager-limit=much", "", `command line:1:11: eager-limit: "much" is not a size: give bytes, or a number with K, M or G (256K)`},
		{"eager=reuse,transport=ud-first", "", "command line:1:1: eager: eager=reuse needs transport=rc, because "},
		{spelt, "", spelt + `:2:11: eager: "resue" is not one of auto, copy, reuse: did you mean reuse?`},
		{typed, "", typed + `:3:17: eager_limit: true where a number of bytes (16384, "16K") is expected`},
		{apart, "", apart + ":2:11: eager: eager=reuse needs transport=rc, because "},
		{none, "", none + ": no such file"},
		{"", "eagre=copy", "MPITRACE_ACT:1:1: eagre: no such setting: did you mean eager?"},
		{"", "ring=1", "MPITRACE_ACT:1:1: ring: 1 is less than 4K bytes, the least allowed"},
		{"", "eager=reuse,transport=ud-first", "MPITRACE_ACT:1:1: eager: eager=reuse needs transport=rc, because "},
		{file("sound.json", `{"schema": 1}`), "eagre=copy", "MPITRACE_ACT:1:1: eagre: no such setting: did you mean eager?"},
		{"", spelt, `:2:11: eager: "resue" is not one of auto, copy, reuse: did you mean reuse?`},
	} {
		t.Setenv("MPITRACE_ACT", test.env)
		args := []string{"run"}
		if test.option != "" {
			args = append(args, "--act="+test.option)
		}
		status, stdout, stderr := runs(append(args, "--", "touch", "started")...)
		if status != statusUsage || stdout != "" || !strings.HasPrefix(stderr, "mpitrace: ") || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("--act=%s, MPITRACE_ACT=%s: status %d, want %d and one line with %q:\n%s%s", test.option, test.env, status, statusUsage, test.want, stdout, stderr)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Fatalf("--act=%s, MPITRACE_ACT=%s: %v, left %v", test.option, test.env, err, left)
		}
	}
}

// TestRunMode: who chooses the mode. The last one that is named wins, and naming a
// policy means to act.
func TestRunMode(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string { return written(t, dir, name, text) }
	plain := file("plain.json", `{"schema": 1, "ring": "1M"}`)
	watches := file("watches.json", `{"schema": 1, "mode": "advise"}`)
	acts := file("acts.json", `{"schema": 1, "mode": "act"}`)
	none := filepath.Join(dir, "none.json")
	for _, test := range []struct{ site, mode, act, env, want string }{
		{none, "", "", "", "observe"},
		{none, "act", "", "", "act"},
		{none, "", "auto", "", "act"},
		{none, "", plain, "", "act"},
		{none, "", "", plain, "act"},
		{none, "", watches, "", "advise"},
		{none, "", "advise", "", "advise"},
		{none, "observe", "", "auto", "observe"},
		{none, "advise", "", "", "advise"},
		{plain, "", "", "", "observe"},
		{acts, "", "", "", "act"},
		{acts, "off", "", "", "off"},
		{acts, "", watches, "", "advise"},
		{watches, "", "", "", "advise"},
		{watches, "", plain, "", "act"},
	} {
		t.Setenv("MPITRACE_ACT", test.env)
		o := &runOptions{given: map[string]bool{"act": test.act != "", "mode": test.mode != ""}}
		settings := map[string]string{}
		for name, value := range map[string]string{"mode": test.mode, "act": cmp.Or(test.act, test.env)} {
			if value != "" {
				settings[name] = value
			}
		}
		acting, err := o.policy(settings, test.site)
		if err != nil || settings["mode"] != test.want || (acting != nil) != (test.want == "act") {
			t.Errorf("%+v: mode %q, policy %v, %v", test, settings["mode"], acting, err)
		}
	}
}

// TestRunModeGiven: a mode that is named itself is stronger than that of a policy, a
// variable only where no option names a policy, and a line of the command stands for the
// variable, whatever that holds.
func TestRunModeGiven(t *testing.T) {
	dir := t.TempDir()
	watches := written(t, dir, "watches.json", `{"schema": 1, "mode": "advise"}`)
	none := filepath.Join(dir, "none.json")
	for _, test := range []struct{ option, variable, act, env, want string }{
		{"act", "", watches, "", "act"},
		{"act", "", "advise", "", "act"},
		{"act", "", "", watches, "act"},
		{"act", "off", watches, "", "act"},
		{"", "act", "", watches, "act"},
		{"", "act", watches, "", "advise"},
		{"", "off", "auto", "", "act"},
		{"", "", "eager=copy", none, "act"},
	} {
		t.Setenv("MPITRACE_ACT", test.env)
		o := &runOptions{given: map[string]bool{"act": test.act != "", "mode": test.option != ""}}
		settings := map[string]string{}
		for name, value := range map[string]string{"mode": cmp.Or(test.option, test.variable), "act": cmp.Or(test.act, test.env)} {
			if value != "" {
				settings[name] = value
			}
		}
		acting, err := o.policy(settings, none)
		if err != nil || settings["mode"] != test.want || (acting != nil) != (test.want == "act") || acting != nil && acting.Mode() != "act" {
			t.Errorf("%+v: mode %q, policy %v, %v", test, settings["mode"], acting, err)
		}
	}
}

// fabricAnswers puts a program in the place of mpitrace-fabric, which answers each first
// argument with a text.
func fabricAnswers(t *testing.T, answers map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range answers {
		written(t, dir, name, text)
	}
	path := written(t, dir, fabricProgram, "#!/bin/sh\nexec cat "+dir+"/$1\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestPolicyCheckHere: one policy serves nodes whose devices have different names.
func TestPolicyCheckHere(t *testing.T) {
	fabricAnswers(t, map[string]string{"list": `{"devices": [
		{"name": "mlx4_0", "ports": [{"name": "mlx4_0:1", "number": 1, "up": false}, {"name": "mlx4_0:2", "number": 2, "up": true}], "transports": ["RC"]},
		{"name": "iwarp:ib0", "ports": [{"name": "iwarp:ib0", "number": 1, "up": true}], "transports": ["RC", "UD"]},
		{"name": "iwarp:ib1", "ports": [{"name": "iwarp:ib1", "number": 1, "up": false}], "transports": ["RC", "UD"]}]}`})
	for line, want := range map[string]string{
		"device=mlx5_*+iwarp:ib*":                    "",
		"device=mlx5_*+iwarp:ib*,transport=ud-first": "",
		"device=mlx4_0:1":                            "",
		"device=mlx4_0:2+iwarp*,transport=ud-first":  "command line:1:24: transport: ud-first needs datagrams, which mlx4_0 does not have",
		"device=mlx5_*":                              "command line:1:1: device: no device is called mlx5_*",
		"device=iwarp:ib1":                           "command line:1:1: device: no port of iwarp:ib1 is up",
		"device=iwarp:ib1+iwarp*,transport=ud-first": "",
	} {
		status, stdout, stderr := runs("policy", "check", "--here", "--site", t.TempDir()+"/none", line)
		if (status == 0) != (want == "") || !strings.HasPrefix(stdout, want) || want == "" && stdout != "" || stderr != "" {
			t.Errorf("%s: status %d, want %q:\n%s%s", line, status, want, stdout, stderr)
		}
	}
}

// TestCalibrateWithoutLocking: registration is measured by mpitrace-fabric, so that this
// process need not be allowed to lock memory.
func TestCalibrateWithoutLocking(t *testing.T) {
	fabricAnswers(t, map[string]string{
		"registration": `{"rows": [{"bytes": 4096, "register_us": 1.5, "deregister_us": 1}]}`,
		"pingpong":     `{"rows": [{"operation": "SEND", "bytes": 8, "half_round_trip_us": 9}, {"operation": "WRITE", "bytes": 8, "half_round_trip_us": 2}]}`,
	})
	forbidLocking(t)
	c, err := calibrate("n1", "shm")
	if err != nil {
		t.Fatal(err)
	}
	if c.Costs.Register.At(4096) != 1500 || c.Costs.Deregister.At(4096) != 1000 || c.Costs.StandIn || c.Costs.Copy.At(4096) <= 0 || c.Costs.LookUpNS(4096) <= 0 || c.Transfer.At(8) != 2000 {
		t.Errorf("%+v", c)
	}
}

// forbidLocking has mlock refused to this test.
func forbidLocking(t *testing.T) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit) })
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // which ends with the test, and its capabilities with it
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var own [2]unix.CapUserData
	if err := unix.Capget(&header, &own[0]); err != nil {
		t.Fatal(err)
	}
	own[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	if err := unix.Capset(&header, &own[0]); err != nil {
		t.Fatal(err)
	}
	if page := make([]byte, 1); unix.Mlock(page) == nil {
		t.Fatal("memory can still be locked")
	}
}

// TestPolicyExplain costs a synthetic job.
func TestPolicyExplain(t *testing.T) {
	dir, _, _ := sampledResult(t)
	calibration := filepath.Join(t.TempDir(), "node.json")
	text := `{"schema": 1, "node": "n1", "device": "mlx5_0", "transfer": [{"bytes": 8, "ns": 1000}, {"bytes": 8192, "ns": 3000}],
		"costs": {"schema": 1, "source": "made up", "stand_in": false, "copy": [{"bytes": 128, "ns": 30}, {"bytes": 8192, "ns": 90000}],
		"register": [{"bytes": 4096, "ns": 30000}], "usage_lookup": [{"bytes": 128, "ns": 10}], "exposed": [{"bytes": 8, "ns": 2000}]}}`
	if err := os.WriteFile(calibration, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MPITRACE_ACT", "")
	t.Setenv("XDG_CACHE_HOME", filepath.Dir(calibration))
	for _, test := range []struct {
		args   string
		status int
		want   string
	}{
		{"--calibration " + calibration, 0, "MPI_Isend at heat.c:91"},
		{"--calibration " + calibration, 0, "> reuse"},
		{"--calibration " + calibration, 0, "By function and size, wherever it is called, the chosen one first:\n  MPI_Isend "},
		{"--policy eager-copy --calibration " + calibration, 0, "pinned by the policy"},
		{"--policy eager-limit=1K,rndv=write+read --calibration " + calibration, 0, "> read"},
		{"--json --calibration " + calibration, 0, `"chosen": "reuse"`},
		{"", 2, "this node was never calibrated"},
		{"--policy x --calibration " + calibration, 2, "command line:1:1: x: no such setting"},
		{"--calibration " + dir + "/none", 2, "no such file"},
	} {
		status, stdout, stderr := runs(append([]string{"policy", "explain", "--site", dir + "/none", dir}, strings.Fields(test.args)...)...)
		shown := stdout
		if test.status != 0 {
			shown = stderr
		}
		if status != test.status || !strings.Contains(shown, test.want) {
			t.Errorf("%s: status %d, want %d and %q:\n%s%s", test.args, status, test.status, test.want, stdout, stderr)
		}
	}
	// A policy that is given stands in place of the variable, a file like a line.
	reuse := written(t, t.TempDir(), "reuse.json", `{"schema": 1, "eager": "reuse"}`)
	for _, variable := range []string{"eager=copy", "nonsense=1"} {
		t.Setenv("MPITRACE_ACT", variable)
		status, stdout, stderr := runs("policy", "explain", "--site", dir+"/none", "--calibration", calibration, "--policy", reuse, "--json", dir)
		if status != 0 || !strings.Contains(stdout, `"chosen": "reuse"`) || strings.Contains(stdout, `"chosen": "copy"`) {
			t.Errorf("--policy %s with MPITRACE_ACT=%s: status %d:\n%s%s", reuse, variable, status, stdout, stderr)
		}
	}
}
