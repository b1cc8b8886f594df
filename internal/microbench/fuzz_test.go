package microbench

import (
	"reflect"
	"strconv"
	"testing"
)

func exact(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// FuzzParse: no output makes the parser panic, and what it accepts says the
// same when it is written down and parsed again.
func FuzzParse(f *testing.F) {
	f.Add("result bandwidth mode=uni size=1024 mb_s=12.5 window=64\ndone verified=17\n")
	f.Add("note x\nresult bandwidth mode=both-way size=1 mb_s=1e3\r\ndone verified=3")
	f.Add("result bandwidth mb_s=-0x1p-2\ndone verified=9223372036854775808\n")
	f.Add("result bandwidth mode== size=, mb_s=1_0\n\ndone verified=01\n")
	f.Fuzz(func(t *testing.T, text string) {
		b := named(t, "bandwidth")
		out, err := b.Parse(text)
		if err != nil {
			return
		}
		again, err := b.Parse(render(b, out))
		if err != nil {
			t.Fatalf("%q is accepted, but %q is not: %v", text, render(b, out), err)
		}
		if !reflect.DeepEqual(out, again) {
			t.Errorf("%+v became %+v", out, again)
		}
	})
}
