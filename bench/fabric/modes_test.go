package main

import (
	"strings"
	"testing"
)

// TestMedians: numbers are medians over rounds, what tells rows apart is not.
func TestMedians(t *testing.T) {
	var rounds [][]row
	var keys []string
	for _, us := range []string{"3", "1", "20"} {
		rows, names, err := decode([]byte(`{"mode":"m","rows":[{"operation":"SEND","bytes":8,"us":` + us + `},{"operation":"WRITE","bytes":8,"us":1.5}]}`))
		if err != nil {
			t.Fatal(err)
		}
		rounds, keys = append(rounds, rows), names
	}
	var got []string
	for _, line := range medians(rounds, keys, []string{"operation", "bytes"}) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if want := "operation bytes us;SEND 8 3.000;WRITE 8 1.500"; strings.Join(got, ";") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if _, _, err := decode([]byte("no table")); err == nil {
		t.Error("what is no table is taken for one")
	}
}
