package main

import (
	"slices"
	"testing"
)

func TestArguments(t *testing.T) {
	cases := []struct {
		args           []string
		script, parent string
		want           []string
	}{
		{[]string{"report"}, "", "bash", []string{"report"}},
		{nil, "", "bash", nil},
		{[]string{"./app", "clean"}, "prolog_srun", "srun", []string{"note-nodes"}},
		{nil, "prolog_srun", "srun", []string{"note-nodes"}},
		{[]string{"clean"}, "prolog_srun", "sh", []string{"clean"}}, // in a prolog of the user
		{[]string{"report"}, "", "srun", []string{"report"}},
	}
	for _, c := range cases {
		if got := arguments(c.args, c.script, c.parent); !slices.Equal(got, c.want) {
			t.Errorf("%v in %q of %s: %v, want %v", c.args, c.script, c.parent, got, c.want)
		}
	}
}
