package reusetrack

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func fullCosts() *Costs {
	c := backSolved(columns["fast"])
	c.StandIn, c.Notes = true, []string{"made up"}
	c.CopyCold, c.Deregister, c.Exposed = Curve{{128, 400}, {8192, 2000}}, Curve{{0, 9000}}, Curve{{0, 2000}, {8192, 3500.5}}
	return c
}

func TestCostsRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.json")
	want := fullCosts()
	var text bytes.Buffer
	if err := want.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := LoadCosts(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
	if _, err := LoadCosts(path + ".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestReadCostsRefuses(t *testing.T) {
	const rest = `"copy":[{"bytes":64,"ns":5}],"register":[{"bytes":64,"ns":5}]`
	for text, want := range map[string]string{
		``:                          "EOF",
		`x`:                         "invalid character",
		`{"schema":2,` + rest + `}`: "schema 2",
		`{"schema":1,` + rest + `}`: "usage_lookup is missing",
		`{"schema":1,` + rest + `,"usage_lookup":[]}`:                                             "usage_lookup is missing",
		`{"schema":1,` + rest + `,"usage_lookup":[{"bytes":1,"ns":1}],"copies":[]}`:               "unknown field",
		`{"schema":1,` + rest + `,"usage_lookup":[{"bytes":1,"ns":-1}]}`:                          "not between",
		`{"schema":1,` + rest + `,"usage_lookup":[{"bytes":1,"ns":1e16}]}`:                        "not between",
		`{"schema":1,` + rest + `,"usage_lookup":[{"bytes":-1,"ns":1}]}`:                          "cannot unmarshal",
		`{"schema":1,` + rest + `,"usage_lookup":[{"bytes":9,"ns":1},{"bytes":9,"ns":1}]}`:        "sizes must rise",
		`{"schema":1,` + rest + `,"usage_lookup":[{"bytes":1,"ns":1}]} {}`:                        "after the end",
		`{"schema":1,` + strings.Repeat(" ", maxCostsBytes) + rest + `}`:                          "more than",
		`{"schema":1,` + rest + `,"usage_lookup":[` + strings.Repeat(`{},`, maxPoints) + `{}]}`:   "at most",
		`{"schema":1,"copy":null,"register":[{"bytes":1,"ns":1}],"usage_lookup":[{"bytes":1}]}  `: "copy is missing",
	} {
		if _, err := ReadCosts(strings.NewReader(text)); !errors.Is(err, ErrCosts) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
	if err := (&Costs{Schema: 1, Copy: Curve{{1, math.NaN()}}}).WriteJSON(&bytes.Buffer{}); !errors.Is(err, ErrCosts) {
		t.Errorf("written though they cannot be read: %v", err)
	}
}

func FuzzReadCosts(f *testing.F) {
	var text bytes.Buffer
	if err := fullCosts().WriteJSON(&text); err != nil {
		f.Fatal(err)
	}
	f.Add(text.Bytes())
	f.Add([]byte(`{"schema":1,"copy":[{"bytes":18446744073709551615,"ns":1e15}],"register":[{}],"usage_lookup":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ReadCosts(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, ErrCosts) {
				t.Fatalf("%v does not wrap ErrCosts", err)
			}
			return
		}
		for _, m := range []uint64{0, 1, 128, 4096, 1 << 40, math.MaxUint64} {
			if n, ok := c.MinUses(m, c.Exposed.At(m)); ok != (n > 0) || n > maxUses {
				t.Fatalf("%d bytes: n %d %v", m, n, ok)
			}
			if v := c.Improvement(m, 7, 1000, 0); math.IsNaN(v) {
				t.Fatalf("%d bytes: improvement %v", m, v)
			}
		}
		var out bytes.Buffer
		if err := c.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		if again, err := ReadCosts(&out); err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%v\n%+v\n%+v", err, again, c)
		}
	})
}

func TestMeasure(t *testing.T) {
	begin := time.Now()
	c, err := Measure(MeasureOptions{Budget: 100 * time.Millisecond, Sizes: []uint64{128, 4096, 65536}})
	if errors.Is(err, ErrMemlock) {
		var limit unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil && limit.Cur >= 64<<10 {
			t.Fatalf("refused below the limit of %d bytes: %v", limit.Cur, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("took %v", time.Since(begin))
	if err := c.Validate(); err != nil || !c.StandIn || len(c.Notes) < 3 {
		t.Errorf("%v, %+v", err, c)
	}
	if c.Copy.At(65536) <= c.Copy.At(128) || c.CopyCold.At(65536) <= c.CopyCold.At(128) || c.Register.At(128) <= 0 || c.LookUpNS(128) <= 0 {
		t.Errorf("these costs cannot be: %+v", c)
	}
}

func TestMeasureRefused(t *testing.T) {
	m := &meter{each: time.Microsecond, unlock: func([]byte) error { return nil }}
	m.lock = func(b []byte) error {
		if len(b) > 1000 {
			return unix.ENOMEM
		}
		return nil
	}
	area := make([]byte, coldBytes+maxMeasured)
	c, err := m.costs(area, []uint64{256, 512, 2048})
	if err != nil || len(c.Register) != 2 || len(c.Copy) != 3 || !strings.Contains(c.Notes[len(c.Notes)-1], "more than 512 bytes could not be locked (RLIMIT_MEMLOCK is") {
		t.Errorf("%v, %+v", err, c)
	}
	_, err = m.costs(area, []uint64{2048})
	if !errors.Is(err, ErrMemlock) || !strings.Contains(err.Error(), "ulimit -l") {
		t.Errorf("%v", err)
	}
	m.register = Curve{{4096, 1000}} // known already: nothing is locked
	c, err = m.costs(area, []uint64{2048})
	if err != nil || c.Register.At(2048) != 1000 || c.StandIn || len(c.Copy) != 1 || len(c.UsageLookUp) != 1 || slices.Contains(c.Notes, standIn[0]) {
		t.Errorf("%v, %+v", err, c)
	}
	for _, sizes := range [][]uint64{{5, 5}, {0}, {maxMeasured + 1}, make([]uint64, maxSizes+1)} {
		if _, err := Measure(MeasureOptions{Sizes: sizes}); !errors.Is(err, ErrCosts) {
			t.Errorf("%v: %v", sizes, err)
		}
	}
}
