package policy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestDefaultsAreAllowed(t *testing.T) {
	for i := range settings {
		if _, err := settings[i].canonical(settings[i].Default); err != nil {
			t.Errorf("%s: %v", settings[i].Name, err)
		}
	}
}

func resolve(t *testing.T, layers ...*Layer) *Effective {
	t.Helper()
	e, err := Resolve(layers...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func parse(t *testing.T, source, text string) *Layer {
	t.Helper()
	read := ParseString
	if strings.HasPrefix(text, "{") {
		read = func(source, text string) (*Layer, error) { return ParseJSON(source, []byte(text)) }
	}
	l, err := read(source, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return l
}

func TestStringRoundTrip(t *testing.T) {
	for _, text := range []string{
		"auto", "off", "observe", "advise", "eager=reuse,rndv=read-event,eager-limit=16K",
		"observe,eager=copy", "device=mlx5_0:1+rxe*,transport=ud-first,rc-peers=3", "pinned=auto,verify=1000,verify-action=quarantine",
		"rndv=read+receiver,speculation=50,rtr-usage=70,rtr-sample=5", "eager=auto",
	} {
		l := parse(t, "test", text)
		if got, err := l.String(); err != nil || sorted(got) != sorted(text) {
			t.Errorf("%s: printed as %s, %v", text, got, err)
		}
	}
}

func sorted(text string) string {
	parts := strings.Split(text, ",")
	out := ""
	for i := range settings {
		for _, p := range parts {
			if strings.HasPrefix(p, settings[i].Short+"=") {
				out += p + ","
			}
		}
	}
	return out
}

// Two ways to write the same.
func TestSameSettings(t *testing.T) {
	for _, pair := range [][2]string{
		{"eager-reuse,rndv-read-event", "rendezvous=read-event,eager=reuse"},
		{"act", "auto"},
		{"eager=copy+reuse", "eager=reuse+copy"},
		{"eager=auto", "eager=copy+reuse"},
		{"eager_limit=16384", " eager-limit=16k "},
		{`{"schema":1,"mode":"act","eager":"reuse","eager_limit":16384}`, `{"eager_limit" : "16K",
			"eager":["reuse"], "mode":"act", "comment":"x", "schema":1}`},
		{`{"schema":1,"mode":"act","speculation":50}`, "speculation=50"},
	} {
		a, b := parse(t, "a", pair[0]), parse(t, "b", pair[1])
		if !reflect.DeepEqual(a.Settings, b.Settings) {
			t.Errorf("%q: %v\n%q: %v", pair[0], a.Settings, pair[1], b.Settings)
		}
		if ea, eb := resolve(t, a), resolve(t, b); ea.Hash() != eb.Hash() || ea.Lines() != eb.Lines() {
			t.Errorf("%q and %q have different hashes", pair[0], pair[1])
		}
	}
}

// Each single change of a value changes the hash.
func TestHashTellsApart(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{
		"auto", "observe", "eager=copy", "eager=reuse", "eager-limit=8K", "device=a", "transport=ud-first", "rc-peers=5", "ring=1M", "pinned=1G", "rndv=read", "rndv=write",
		"rndv=read-event", "rndv=receiver", "speculation=50", "rtr-usage=79", "rtr-sample=21", "verify=1", "verify-action=quarantine", "proof=off", "reuse-from=256",
		`{"schema":1,"mode":"act","rules":[{"when":{"size":"1"},"use":{"eager":"copy"}}]}`,
		`{"schema":1,"mode":"act","rules":[{"when":{"size":"2"},"use":{"eager":"copy"}}]}`,
		`{"schema":1,"mode":"act","rules":[{"when":{"size":"2"},"use":{"eager":"copy"}},{"when":{"size":"1"},"use":{"eager":"copy"}}]}`,
		`{"schema":1,"mode":"act","rules":[{"when":{"size":"1"},"use":{"eager":"copy"}},{"when":{"size":"2"},"use":{"eager":"copy"}}]}`,
	} {
		h := resolve(t, parse(t, "test", text)).Hash()
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(h) {
			t.Errorf("%s: hash %q", text, h)
		}
		if seen[h] != "" {
			t.Errorf("%s and %s have one hash", text, seen[h])
		}
		seen[h] = text
	}
}

func TestPrecedence(t *testing.T) {
	env := parse(t, "MPITRACE_ACT", "eager=copy")
	job := parse(t, "job", `{"schema":1,"eager":"reuse","eager_limit":"8K","rules":[
		{"name":"small","when":{"size":"..512"},"use":{"eager":"reuse","rendezvous":"write"}},
		{"name":"gone","when":{"peer":"same-node"},"use":{"eager":"reuse"}}]}`)
	site := parse(t, "site", `{"schema":1,"mode":"off","eager_limit":"4K","ring":"1M","rules":[
		{"name":"site","when":{"peer":"other-node"},"use":{"rendezvous":"read"}}]}`)
	e := resolve(t, env, job, nil, site)
	for name, want := range map[string]Value{
		"mode": {"act", "MPITRACE_ACT"}, "eager": {"copy", "MPITRACE_ACT"}, "eager_limit": {"8192", "job"},
		"ring": {"1048576", "site"}, "rendezvous": {"read+write+read-event+receiver", BuiltIn},
	} {
		if e.Settings[name] != want {
			t.Errorf("%s is %v, want %v", name, e.Settings[name], want)
		}
	}
	if len(e.Rules) != 2 || e.Rules[0].Name != "small" || e.Rules[1].Name != "site" {
		t.Fatalf("rules %+v", e.Rules)
	}
	if _, ok := e.Rules[0].Use["eager"]; ok {
		t.Error("a rule of the job file overrules the environment")
	}
	for _, c := range []struct {
		m    Message
		want string
		rule int
	}{
		{Message{Bytes: 512, Peer: "other-node"}, "write", 0},
		{Message{Bytes: 513, Peer: "other-node"}, "read", 1},
		{Message{Bytes: 513}, "read+write+read-event+receiver", -1},
	} {
		if got := e.Choose("rendezvous", &c.m); got != (Choice{c.want, c.rule}) {
			t.Errorf("%+v: %+v", c.m, got)
		}
	}
	if job.Rules[0].Use["eager"] != "reuse" {
		t.Error("Resolve changed a layer")
	}
}

// A rule is a mistake where it never applies, and would not without the stronger sources
// either.
func TestRulesOfSeveralSources(t *testing.T) {
	rule := `{"schema":1,"rules":[{"when":{"size":"65K..100K"},"use":{"eager":"copy"}}]}`
	for _, c := range []struct {
		layers []string
		rules  int
		want   string // the error
	}{
		{[]string{rule}, 0, "1: rules[0].use.eager: never applies: the rule is for messages from 65K, and the eager_limit is 64K"},
		{[]string{rule, `{"schema":1,"eager_limit":"128K"}`}, 1, ""},
		{[]string{rule, `{"schema":1,"rules":[{"when":{"site":"f"},"use":{"eager_limit":"128K"}}]}`}, 2, ""},
		{[]string{rule, `{"schema":1,"device":"mlx5_*"}`}, 0, "1: rules[0].use.eager: never applies: the rule is for messages from 65K, and the eager_limit is 16K"},
		{[]string{"eager-limit=128K", rule}, 1, ""},
		{[]string{"eager-limit=2K", rule}, 0, "2: rules[0].use.eager: never applies"},
		{[]string{"eager=copy", `{"schema":1,"rules":[{"when":{"peer":"same-node"},"use":{"eager":"copy"}},{"when":{"peer":"same-node","size":"1"},"use":{"eager":"copy"}}]}`}, 0, ""},
		{[]string{"eager-limit=1K", `{"schema":1,"rules":[{"when":{"size":"2K..8K"},"use":{"rendezvous":"read"}},{"when":{"size":"4K"},"use":{"eager":"copy","rendezvous":"write"}}]}`}, 1, ""},
	} {
		var layers []*Layer
		for i, text := range c.layers {
			layer := parse(t, fmt.Sprint(1+i), text)
			layer.places = nil // no lines and columns
			layers = append(layers, layer)
		}
		e, err := Resolve(layers...)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) || err == nil && len(e.Rules) != c.rules {
			t.Errorf("%q: %v, %v, want %d rules, %q", c.layers, e, err, c.rules, c.want)
		}
		resolveFuzzed(t, layers...)
	}
}

func TestJSONAgain(t *testing.T) {
	text := `{"schema":1,"mode":"act","device":["a*","b"],"eager":"copy","rules":[
		{"name":"halo","when":{"operation":["isend","send"],"communicator":"MPI_*","communicator_size":"2..","size":"1K..64K","peer":"same-node","site":["libhalo.so?0x*","exchange"]},
		 "use":{"rendezvous":["read","write"],"reuse_from":512}}]}`
	e := resolve(t, parse(t, "test", text))
	again := resolve(t, parse(t, "again", string(e.JSON())))
	if e.Lines() != again.Lines() {
		t.Errorf("%s\n%s", e.Lines(), again.Lines())
	}
}

// A dumb twin of match, by recursion.
func dumbMatch(p, s string) bool {
	switch {
	case p == "":
		return s == ""
	case p[0] == '*':
		return dumbMatch(p[1:], s) || s != "" && dumbMatch(p, s[1:])
	}
	return s != "" && (p[0] == '?' || p[0] == s[0]) && dumbMatch(p[1:], s[1:])
}

func TestMatch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(letters string) string {
		b := make([]byte, random.IntN(9))
		for i := range b {
			b[i] = letters[random.IntN(len(letters))]
		}
		return string(b)
	}
	matched := 0
	for range 200_000 {
		p, s := word("ab*?*"), word("ab")
		got := match(p, s)
		if got != dumbMatch(p, s) {
			t.Fatalf("match(%q, %q) = %v", p, s, got)
		}
		if got {
			matched++
		}
	}
	if matched < 1000 {
		t.Errorf("only %d matched", matched)
	}
}

func TestErrorsWrap(t *testing.T) {
	_, err := ParseString("x", "nonsense=1")
	if !errors.Is(err, ErrPolicy) {
		t.Errorf("%v does not wrap ErrPolicy", err)
	}
	if _, err := (&Layer{Source: "f", Settings: map[string]string{}}).String(); !errors.Is(err, ErrPolicy) {
		t.Errorf("a layer without a mode was printed: %v", err)
	}
}

func FuzzParseString(f *testing.F) {
	for _, s := range []string{"auto", "eager-reuse,rndv=read-event,eager-limit=16K", "device=a+b,,x", "off", "act,verify=0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseString("fuzz", text)
		if err != nil {
			if !errors.Is(err, ErrPolicy) {
				t.Fatalf("%v", err)
			}
			return
		}
		printed, err := l.String()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseString("again", printed)
		if err != nil || !reflect.DeepEqual(l.Settings, again.Settings) {
			t.Fatalf("%q printed as %q: %v, %v", text, printed, again, err)
		}
		resolveFuzzed(t, l)
	})
}

func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{
		`{"schema":1}`, `{"schema":1,"mode":"act","rules":[{"name":"a","when":{"size":"1K..","site":["a","b"]},"use":{"eager":"copy","eager_limit":"2K"}}]}`,
		`{"schema":1,"device":"a","device":"b"}`, `[`, `{"schema":2,"x":{}}`, "{\"schema\":1,\"device\":\"\\u0000\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ParseJSON("fuzz", text)
		if err != nil {
			var p Problems
			if !errors.As(err, &p) || len(p) == 0 || p[0].Line < 1 && len(text) <= MaxBytes {
				t.Fatalf("%v", err)
			}
			return
		}
		resolveFuzzed(t, l)
	})
}

// resolveFuzzed: what is in effect can be written and read again, and its lines
// can be told apart.
func resolveFuzzed(t *testing.T, layers ...*Layer) {
	t.Helper()
	e, err := Resolve(layers...)
	if err != nil {
		return
	}
	back, err := ParseJSON("again", e.JSON())
	if err != nil {
		t.Fatalf("%v\n%s", err, e.JSON())
	}
	again, err := Resolve(back)
	if err != nil || again.Lines() != e.Lines() {
		t.Fatalf("%v\n%s\n%s", err, e.Lines(), e.JSON())
	}
	for _, line := range strings.Split(strings.TrimSuffix(e.Lines(), "\n"), "\n") {
		if name, _, ok := strings.Cut(line, "="); !ok || !regexp.MustCompile(`^[a-z0-9_.]+$`).MatchString(name) {
			t.Fatalf("line %q", line)
		}
	}
}

// The C side has room for as many rules as are allowed.
func TestMostRules(t *testing.T) {
	text, err := os.ReadFile("../c/act/rules.h")
	if err != nil || !strings.Contains(string(text), fmt.Sprintf("MT_ACT_RULES = %d ", MostRules)) {
		t.Errorf("c/act/rules.h does not state MT_ACT_RULES = %d: %v", MostRules, err)
	}
	for n, want := range map[int]string{MostRules: "", MostRules + 1: fmt.Sprintf("rules[%d]: ranks follow %d rules at most", MostRules, MostRules)} {
		var rules []string
		for i := range n {
			rules = append(rules, fmt.Sprintf(`{"when": {"size": "%d..%d"}, "use": {"rendezvous": "read"}}`, 10*i, 10*i+5))
		}
		_, err := Resolve(parse(t, "test", `{"schema": 1, "rules": [`+strings.Join(rules, ", ")+`]}`))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d rules: %v, want %q", n, err, want)
		}
	}
}

// A policy that the kernel would not start a launcher with is refused where it is too
// long; the longest one that is let through leaves room for the other variables.
func TestMostWord(t *testing.T) {
	policyOf := func(names int) (*Effective, error) {
		name := `"` + strings.Repeat("%", 64) + `"` // three times as long in a word
		sites := name + strings.Repeat(", "+name, names-1)
		return Resolve(parse(t, "long.json", `{"schema": 1, "rules": [
 {"when": {"size": "1.."}, "use": {"rendezvous": "read"}},
 {"when": {"site": [`+sites+`]}, "use": {"rendezvous": "write"}}]}`))
	}
	e, err := policyOf(400)
	if err != nil || len(e.Word()) < 3*64*400 || len(e.Word()) > MostWord {
		t.Errorf("400 names: %v", err)
	}
	_, err = policyOf(600)
	if want := "long.json:3:2: rules[1]: ranks are given the policy in 98304 bytes at most"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("600 names: %v, want %s", err, want)
	}
}

// TestEagerLimit: what nobody states is the device's, and has room twice in the ring;
// the ranks have the same numbers.
func TestEagerLimit(t *testing.T) {
	for _, c := range []struct {
		policy, device string
		want           int64
	}{
		{"auto", "shm", eagerSharedMemory},
		{"auto", "iwarp:lo", eagerTCP},
		{"auto", "mlx5_0", eagerOthers},
		{"transport=ud-first", "iwarp:lo", eagerOthers},
		{"ring=4K", "shm", 2048},
		{"eager-limit=100", "shm", 100},
	} {
		if got := resolve(t, parse(t, "line", c.policy)).EagerLimit(nil, c.device); got != c.want {
			t.Errorf("%s over %s: %d, want %d", c.policy, c.device, got, c.want)
		}
	}
	e := resolve(t, parse(t, "file", `{"schema":1,"eager_limit":"8K","rules":[{"when":{"size":"5.."},"use":{"eager_limit":"auto"}}]}`))
	for bytes, want := range map[int64]int64{4: 8192, 5: eagerOthers} {
		if got := e.EagerLimit(&Message{Bytes: bytes}, "mlx5_0"); got != want {
			t.Errorf("%d bytes: %d, want %d", bytes, got, want)
		}
	}
	source, err := os.ReadFile("../c/act/policy.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		fmt.Sprintf("MT_ACT_EAGER_SHM = %d << 10,", eagerSharedMemory>>10),
		fmt.Sprintf("MT_ACT_EAGER_TCP = %d << 10,", eagerTCP>>10),
		fmt.Sprintf("MT_ACT_EAGER_OTHERS = %d << 10,", eagerOthers>>10),
	} {
		if !strings.Contains(string(source), line) {
			t.Errorf("c/act/policy.c has no %q", line)
		}
	}
}

// What a pattern is said to cover it matches, tried on all short texts.
func TestCoversName(t *testing.T) {
	texts := func(letters string, most int) []string {
		out := []string{""}
		for from := 0; most > 0; most-- {
			end := len(out)
			for _, text := range out[from:end] {
				for _, letter := range letters {
					out = append(out, text+string(letter))
				}
			}
			from = end
		}
		return out
	}
	all, patterns, covered := texts("ab", 6), texts("ab*?", 3), 0
	for _, wide := range patterns {
		for _, narrow := range patterns {
			if !coversName(wide, narrow) {
				continue
			}
			covered++
			for _, text := range all {
				if match(narrow, text) && !match(wide, text) {
					t.Errorf("%q is said to cover %q, and does not match %q", wide, narrow, text)
				}
			}
		}
	}
	if covered < 2*len(patterns) {
		t.Errorf("only %d pairs of %d patterns", covered, len(patterns))
	}
}
