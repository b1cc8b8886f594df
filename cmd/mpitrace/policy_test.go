package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		{"eager-cpy", "show --site " + none, 2, "", "mpitrace: MPITRACE_ACT:1:1: eager-cpy: no such setting: did you mean eager-copy?"},
		{"x,y", "show --site " + none, 2, "", "\nmpitrace: MPITRACE_ACT:1:3: y: no such setting"},
		{"", "show --json --lines", 2, "", "json lines"},
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
		{"auto", "eagre=copy", "MPITRACE_ACT:1:1: eagre: no such setting: did you mean eager?"},
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
}
