package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestCheckRuntime(t *testing.T) {
	for rules, want := range map[string]string{
		"": "",
		`{"when": {"size": "1K..", "site": ["halo_*", "libgrid.so?0x12", "grid::exchange"]}, "use": {"rendezvous": "write"}}`: "",
		`{"when": {"site": ["exchange", "halo.c:*"]}, "use": {"eager": "copy"}}`:                                              "here:1:43: rules[0].when.site: halo.c:* names a line of a file",
		manyRules(MostRules):     "",
		manyRules(MostRules + 1): fmt.Sprintf("rules[%d]: a rank follows %d rules at most", MostRules, MostRules),
	} {
		layer, err := ParseJSON("here", []byte(`{"schema": 1, "rules": [`+rules+`]}`))
		if err != nil {
			t.Fatalf("%s: %v", rules, err)
		}
		effective, err := Resolve(layer)
		if err != nil {
			t.Fatalf("%s: %v", rules, err)
		}
		err = effective.CheckRuntime()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", rules, err, want)
		}
	}
}

func manyRules(n int) string {
	var rules []string
	for i := range n {
		rules = append(rules, fmt.Sprintf(`{"when": {"size": "%d..%d"}, "use": {"eager": "copy"}}`, 10*i, 10*i+5))
	}
	return strings.Join(rules, ", ")
}

// The C side has room for as many.
func TestMostRules(t *testing.T) {
	text, err := os.ReadFile("../c/act/rules.h")
	if err != nil || !strings.Contains(string(text), fmt.Sprintf("MT_ACT_RULES = %d ", MostRules)) {
		t.Errorf("c/act/rules.h does not state MT_ACT_RULES = %d: %v", MostRules, err)
	}
}
