package report

import (
	"slices"
	"testing"
)

// A rank knows a call by the function of the symbol table, which is the outermost,
// and by its address.
func TestRuleNames(t *testing.T) {
	for _, c := range []struct {
		site Site
		want []string
	}{
		{Site{}, nil},
		{Site{Symbol: "exchange", Module: "/opt/lib/libgrid.so.2", Offset: 0x4a10}, []string{"exchange", "libgrid.so.2+0x4a10"}},
		{Site{Symbol: "pack", Inlined: []string{"exchange", "step"}}, []string{"step"}},
		{Site{Module: "heat", Offset: 18}, []string{"heat+0x12"}},
	} {
		c.site.resolved = true
		if got := (&Report{}).ruleNames(&c.site); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.site, got, c.want)
		}
	}
}
